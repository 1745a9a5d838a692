package endpoint

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// tries is how often in a row something is asked for in vain.
	tries = 6
	// firstPause is how long the first pause between two of them is; the next
	// ones double.
	firstPause = 50 * time.Millisecond

	dialFor = 10 * time.Second
	// answerFor is how long a job has to begin its answer: it may have to read all
	// rows first.
	answerFor = 5 * time.Minute
	// maxAnswer is how long an assignment or an error may be, in bytes.
	maxAnswer = 16 << 20
)

// job is what an attempt has to do with the job that it is of: requests to the
// job's URL, and the files of what came. It is for one goroutine.
type job struct {
	call   remote.Call
	token  string
	dir    string
	client *http.Client
	open   []*os.File
}

func newJob(call remote.Call, token, dir string, pinned func([sha256.Size]byte) *tls.Config) (*job, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialFor}).DialContext, DisableCompression: true,
		TLSHandshakeTimeout: dialFor, ResponseHeaderTimeout: answerFor, ExpectContinueTimeout: dialFor,
	}
	if _, authority, ok := strings.Cut(token, "."); ok {
		sum, err := hex.DecodeString(authority)
		if err != nil || len(sum) != sha256.Size || pinned == nil {
			return nil, fault.New("endpoint.token", fault.Invalid, "the token names no authority of the job's certificate by its SHA-256")
		}
		t.TLSClientConfig = pinned([sha256.Size]byte(sum))
	}
	return &job{call: call, token: token, dir: dir, client: &http.Client{Transport: t, CheckRedirect: stay}}, nil
}

// stay follows no redirect: the token is for one host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (j *job) close() {
	j.client.CloseIdleConnections()
	for _, f := range j.open {
		_ = f.Close()
	}
}

func (j *job) path(name string) string { return filepath.Join(j.dir, name) }

// request makes a request for what the job has of this attempt: what, of function
// id unless that is empty.
func (j *job) request(ctx context.Context, method, what, id string, body io.Reader) (*http.Request, error) {
	u, err := url.Parse(j.call.JobURL)
	if err != nil {
		return nil, fault.New("endpoint.job", fault.Invalid, "%w", err)
	}
	u = u.JoinPath(what, id)
	q := u.Query()
	for name, values := range j.call.Ref.Query() {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fault.New("endpoint.job", fault.Invalid, "%w", err)
	}
	if j.token != "" {
		r.Header.Set("Authorization", "Bearer "+j.token)
	}
	return r, nil
}

// do sends a request, and returns an answer that is no error. The caller closes
// it. again: the next try may have more luck.
func (j *job) do(r *http.Request) (response *http.Response, again bool, err error) {
	response, err = j.client.Do(r)
	if err != nil {
		return nil, true, fault.New("endpoint.job", fault.Unavailable, "%w", err)
	}
	if response.StatusCode < 300 {
		return response, false, nil
	}
	defer response.Body.Close()
	again = response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests
	return nil, again, refusal(r, response)
}

// refusal is the error that a job's answer is.
func refusal(r *http.Request, response *http.Response) error {
	const op = "endpoint.job"
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	what := r.Method + " " + r.URL.Path
	var f remote.Failure
	if json.Unmarshal(body, &f) == nil {
		if err, ok := f.Err(); ok {
			kind := fault.KindOf(err)
			if kind == fault.Conflict || kind == fault.NotFound { // of the job's; for who called, this attempt could not be run
				kind = fault.Unavailable
			}
			return fault.New(op, kind, "%s: %w", what, err)
		}
	}
	return fault.New(op, fault.Unavailable, "%s: the job's URL answered %d: %.200q", what, response.StatusCode, body)
}

// patiently calls try until it works, does not say that it may yet work, or has
// failed too often in a row. Progress begins a new row.
func patiently(ctx context.Context, try func() (progress, again bool, err error)) error {
	pause := firstPause
	for failed := 1; ; failed++ {
		progress, again, err := try()
		if progress {
			failed, pause = 1, firstPause
		}
		if err == nil || !again || failed == tries {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		pause *= 2
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// assignment asks what is to be done.
func (j *job) assignment(ctx context.Context) (a remote.Assignment, err error) {
	err = patiently(ctx, func() (progress, again bool, err error) {
		r, err := j.request(ctx, http.MethodGet, "assignment", strconv.Itoa(j.call.Function), nil)
		if err != nil {
			return false, false, err
		}
		response, again, err := j.do(r)
		if err != nil {
			return false, again, err
		}
		defer response.Body.Close()
		a = remote.Assignment{}
		if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&a); err != nil {
			return false, true, fault.New("endpoint.job", fault.Unavailable, "the assignment is no JSON: %w", err)
		}
		return false, false, nil
	})
	if err != nil {
		return a, err
	}
	if a.Task != j.call.Task || a.Func != j.call.Function || a.Job != j.call.Job || a.Samples < 0 {
		return a, fault.New("endpoint.job", fault.Unavailable, "the assignment is %s of function %d of job %.40q: that is not what was asked for", a.Task, a.Func, a.Job)
	}
	return a, nil
}

// put sends an output, and returns once the job has it, digest and all.
func (j *job) put(ctx context.Context, what string, o *output) error {
	digest, err := o.digest()
	if err != nil {
		return err
	}
	return patiently(ctx, func() (progress, again bool, err error) {
		var body io.Reader = http.NoBody
		if o.size > 0 {
			body = io.NewSectionReader(o.file, 0, o.size)
		}
		r, err := j.request(ctx, http.MethodPut, what, strconv.Itoa(j.call.Function), body)
		if err != nil {
			return false, false, err
		}
		r.ContentLength = o.size
		r.Header.Set("Content-Type", "application/octet-stream")
		r.Header.Set(remote.DigestHeader, digest.String())
		if o.size > 0 {
			r.Header.Set("Expect", "100-continue") // a refusal comes before the bytes
		}
		response, again, err := j.do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		return false, again, err
	})
}
