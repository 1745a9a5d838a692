package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

const (
	attempts    = 4                      // at what may be repeated
	firstPause  = 100 * time.Millisecond // between attempts, doubled each time
	longPause   = 2 * time.Second
	maxResponse = 1 << 30 // bytes of JSON that are read
)

// Config says which server to talk to, and how.
type Config struct {
	// Server is its URL: http://127.0.0.1:8780, or https://host:8780 with a Token.
	// A host:port alone is http on loopback, else https.
	Server string
	Token  string
	// Patience is for how long streams try to reach a server that is gone; 0: 1 minute.
	Patience time.Duration
	// Silence is after how long without a heartbeat a stream has lost the server;
	// 0: 75 seconds.
	Silence time.Duration
	// Lost is called when a stream has lost the server and begins to look for it
	// for that long, once each time; nil: nobody is told. It must not block.
	Lost func(server string, patience time.Duration)
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base     *url.URL
	token    string
	patience time.Duration
	silence  time.Duration
	lost     func(server string, patience time.Duration)
	http     *http.Client
}

var _ api.Company = (*Client)(nil)

// New returns a client, and connects to nothing yet. Invalid: the URL, or the token.
func New(c Config) (*Client, error) {
	const op = "client.new"
	base, err := parseServer(c.Server)
	if err != nil {
		return nil, err
	}
	token := strings.TrimSpace(c.Token)
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, ExpectContinueTimeout: 5 * time.Second,
	}
	switch {
	case base.Scheme == "http" && token != "":
		return nil, fault.New(op, fault.Invalid, "server %q has no TLS, so that a token could be read on the way: use https, or no token", base)
	case base.Scheme == "https" && token == "":
		return nil, fault.New(op, fault.Invalid, "server %q wants a token: give --token-file, or set TROUPE_TOKEN", base)
	case base.Scheme == "https":
		if transport.TLSClientConfig, err = access.ClientTLS(token); err != nil {
			return nil, err
		}
	}
	lost := c.Lost
	if lost == nil {
		lost = func(string, time.Duration) {}
	}
	return &Client{base: base, token: token, patience: cmp.Or(c.Patience, time.Minute), silence: cmp.Or(c.Silence, silence), lost: lost, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func parseServer(server string) (*url.URL, error) {
	if !strings.Contains(server, "://") {
		scheme := "https://"
		if access.Loopback(server) {
			scheme = "http://"
		}
		server = scheme + server
	}
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" {
		return nil, fault.New("client.new", fault.Invalid, "server %q: give a URL such as http://127.0.0.1:8780 or https://host:8780", server)
	}
	base.Path = ""
	return base, nil
}

// Server is the URL of the server.
func (c *Client) Server() string { return c.base.String() }

// Close ends connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// NewKey returns a key for SubmitJob that nobody has used.
func NewKey() string { return rand.Text() }

// call is a request.
type call struct {
	method string
	path   []string // parts, unescaped
	query  url.Values
	header http.Header
	body   []byte
	once   bool // must not be repeated
}

func get(path ...string) call    { return call{method: http.MethodGet, path: path} }
func remove(path ...string) call { return call{method: http.MethodDelete, path: path} }

// post is not repeated unless the caller says that it may be.
func post(body any, path ...string) (call, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return call{}, fault.New("client.encode", fault.Invalid, "%w", err)
	}
	return call{method: http.MethodPost, path: path, body: encoded, once: true, header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// json does a request, and reads the answer into a value.
func (c *Client) json(ctx context.Context, k call, into any) error {
	response, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	return c.read(k, response, into)
}

// read reads an answer into a value, and closes it.
func (c *Client) read(k call, response *http.Response, into any) error {
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxResponse)).Decode(into); err != nil {
		return c.broken(k, err)
	}
	return nil
}

// text does a request, and reads the answer as it is.
func (c *Client) text(ctx context.Context, k call) (string, http.Header, error) {
	response, err := c.do(ctx, k)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return "", nil, c.broken(k, err)
	}
	return string(body), response.Header, nil
}

// quiet does a request whose answer says nothing.
func (c *Client) quiet(ctx context.Context, k call) error {
	_, _, err := c.text(ctx, k)
	return err
}

// do does a request, again where that may help, and returns an answer that is no
// error. The caller closes its body.
func (c *Client) do(ctx context.Context, k call) (*http.Response, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		response, err := c.try(ctx, k, body(k.body))
		if err == nil || fault.KindOf(err) != fault.Unavailable || k.once || attempt == attempts {
			return response, err
		}
		if !sleep(ctx, pause/2+mathrand.N(pause)) {
			return nil, err
		}
		pause = min(2*pause, longPause)
	}
}

// checkName refuses a name that the server would: some, as "..", would lead to
// something else on the way.
func checkName(path []string) error {
	if len(path) < 2 {
		return nil
	}
	switch name := path[1]; path[0] {
	case "functions":
		return jobjson.CheckFunction(name)
	case "dataset":
		return jobjson.CheckDataset(name)
	case "models":
		return jobjson.CheckModel(name)
	case "tasks", "history":
		return jobjson.CheckJob(name)
	default:
		return nil
	}
}

func body(b []byte) io.Reader {
	if b == nil {
		return nil
	}
	return bytes.NewReader(b)
}

// try does a request once.
func (c *Client) try(ctx context.Context, k call, body io.Reader) (*http.Response, error) {
	if err := checkName(k.path); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, k.method, c.url(k), body)
	if err != nil {
		return nil, fault.New("client.request", fault.Invalid, "%w", err)
	}
	for name, values := range k.header {
		request.Header[name] = values
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if refused, ok := errors.AsType[*fault.Error](err); ok { // by who wrote the body
			return nil, refused
		}
		if ctx.Err() != nil {
			return nil, fault.New("client.request", fault.Unavailable, "%s %s: %w", k.method, c.base, ctx.Err())
		}
		return nil, fault.New("client.request", fault.Unavailable, "reach the server at %s: %w: is `troupe up` running there?", c.base, cause(err))
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		return nil, failure(response)
	}
	return response, nil
}

// url is where a request goes.
func (c *Client) url(k call) string {
	at := *c.base
	var escaped strings.Builder
	for _, part := range k.path {
		at.Path += "/" + part
		escaped.WriteString("/" + url.PathEscape(part))
	}
	at.RawPath = escaped.String()
	at.RawQuery = k.query.Encode()
	return at.String()
}

// cause takes the URL off an error of net/http: who reads it knows it.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// wantsTLS is what a server with TLS answers one that speaks without, as net/http has it.
const wantsTLS = "HTTP request to an HTTPS server"

// failure is the error that a response says.
func failure(response *http.Response) error {
	kind := httpfault.KindOf(response.StatusCode, response.Header.Get(httpfault.Header))
	var said httpfault.ErrorBody
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // what there is of it
	if response.StatusCode == http.StatusBadRequest && bytes.Contains(raw, []byte(wantsTLS)) {
		at := response.Request.URL.Host
		return fault.New("client.request", fault.Invalid, "the server at http://%s has TLS: say https://%s, and give --token-file, or set TROUPE_TOKEN", at, at)
	}
	if json.Unmarshal(raw, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("the server answers %s: is it a troupe?", response.Status)
	}
	err := fault.New("client.request", kind, "%s", said.Error)
	if response.Header.Get(httpfault.Header) == "" {
		return err
	}
	return answered{err}
}

// answered is an error that a troupe has answered with.
type answered struct{ error }

func (a answered) Unwrap() error { return a.error }

// Answered reports whether an error is one that a server has answered with: there
// is one.
func Answered(err error) bool {
	_, ok := errors.AsType[answered](err)
	return ok
}

// broken is the error about an answer that cannot be read.
func (c *Client) broken(k call, err error) error {
	return fault.New("client.answer", fault.Unavailable, "%s /%s: the answer is cut off or none: %w", k.method, strings.Join(k.path, "/"), err)
}

// sleep waits, and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
