package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	predictMost = 64 << 20 // bytes of an answer to infer; others are as short as results
	quoted      = 120      // bytes of an answer that is none of ours, in errors
	dialMost    = 30 * time.Second
	waitLeast   = 100 * time.Millisecond // between two calls, whatever Retry-After says
	waitMost    = time.Minute
	redirectsIn = 5 // a row
)

// newClient returns a client that opens a connection for each call: to cut it
// cuts that call alone, and none is found dead that was idle.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialMost}).DialContext,
			TLSHandshakeTimeout: dialMost, DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: follow,
	}
}

// follow lets a call be redirected on its host only: it carries a token. Whoever
// turns it into a GET does not mean an endpoint of ours.
func follow(to *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	upgrade := from.Scheme == "http" && to.URL.Scheme == "https" && from.Hostname() == to.URL.Hostname()
	same := from.Scheme == to.URL.Scheme && from.Host == to.URL.Host
	if to.Method != http.MethodPost || !same && !upgrade || len(via) > redirectsIn {
		return http.ErrUseLastResponse
	}
	return nil
}

// ask invokes the function at an endpoint until somebody answers, and settles the
// attempt with that unless it is settled already. Errors are those of Run; Rejected
// also for an answer that may not be used; absent: the function was not reached.
func (r *Runtime) ask(ctx context.Context, a *attempt, to target) error {
	for {
		response, err := r.post(ctx, a, to.call)
		if err != nil {
			absence := unreached(err)
			err := fault.New("remote.run", fault.Unavailable, "call %s: %w", shown(to.endpoint), unwrapURL(err))
			if absence {
				return absent{err}
			}
			return err
		}
		wait, again := retryAfter(response)
		if !again {
			return a.answered(ctx, to.endpoint, response)
		}
		_ = response.Body.Close()
		r.absences.end(to.endpoint)
		if err := pause(ctx, wait); err != nil {
			return fault.New("remote.run", fault.Unavailable, "%s is busy (%s): %w", shown(to.endpoint), response.Status, err)
		}
	}
}

func (r *Runtime) post(ctx context.Context, a *attempt, target string) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if a.inv.Task == functions.Infer {
		body = bytes.NewReader(a.inv.Infer)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Accept", "application/json")
	if a.inv.Task == functions.Infer {
		request.Header.Set("Content-Type", "application/json")
	}
	return r.client.Do(request)
}

// retryAfter returns how long to wait before the call is made again, which is
// when the answer says so: 429 or 503 with Retry-After, in seconds or as a date.
// Somewhat later than that, so that not all come at once.
func retryAfter(response *http.Response) (wait time.Duration, again bool) {
	header := response.Header.Get("Retry-After")
	if header == "" || response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	} else {
		return 0, false
	}
	wait = min(max(wait, waitLeast), waitMost)
	return wait + rand.N(wait/4), true //nolint:gosec // not a secret
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answered takes in what an endpoint answered.
func (a *attempt) answered(ctx context.Context, endpoint string, response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	most := resultsMost
	if a.inv.Task == functions.Infer {
		most = predictMost
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	strange := func(what string) error {
		return fault.New("remote.run", fault.Unavailable, "%s answers %s, %s: %q", shown(endpoint), response.Status, what, beginning(body))
	}
	switch {
	case err != nil && response.StatusCode == http.StatusOK:
		return strange(fmt.Sprintf("cut off (%v)", err))
	case len(body) > most:
		return strange(fmt.Sprintf("more than %d bytes", most))
	case response.StatusCode != http.StatusOK:
		var f Failure
		if json.Unmarshal(body, &f) == nil {
			if err, ok := f.Err(); ok {
				return err
			}
		}
		if to := response.Header.Get("Location"); to != "" {
			return strange(fmt.Sprintf("which sends the call to %.200q (register the URL that answers it)", to))
		}
		err := strange("which is not a function's answer")
		if gatewayAlone(response.StatusCode) {
			return absent{err}
		}
		return err
	}
	results, ok := readResults(a, body)
	if !ok {
		return strange("which is not a function's answer")
	}
	if err := a.finish(ctx, results); err != nil {
		if a.settled() {
			return a.err
		}
		return fault.New("remote.answer", fault.Rejected, "%w", err)
	}
	return nil
}

// readResults reads the body of a 200.
func readResults(a *attempt, body []byte) (FunctionResults, bool) {
	var f struct {
		ID      *int     `json:"id"`
		Results *Results `json:"results"`
	}
	err := json.Unmarshal(body, &f)
	if err == nil && f.Results != nil && f.ID != nil {
		return FunctionResults{ID: *f.ID, Results: *f.Results}, true
	}
	if a.inv.Task == functions.Infer && json.Valid(body) { // KubeML's functions answer the bare predictions
		return FunctionResults{ID: a.ref.Function, Results: Results{Predictions: body}}, true
	}
	return FunctionResults{}, false
}

// beginning is what errors show of a body.
func beginning(body []byte) string {
	text := strings.ToValidUTF8(string(body[:min(len(body), quoted)]), "\uFFFD")
	if len(body) > quoted {
		text += "…"
	}
	return text
}

// shown is an endpoint for people: its query may hold a key.
func shown(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "the endpoint"
	}
	u.RawQuery, u.User = "", nil
	return u.String()
}

// unwrapURL drops what net/http says of the URL, which is long and holds a query.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
