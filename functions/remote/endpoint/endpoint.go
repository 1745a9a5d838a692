package endpoint

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Config says what an endpoint runs. Runtime, Function, Dir and Log are required.
type Config struct {
	Runtime functions.Runtime // stays the caller's to close
	// Function returns what the runtime calls the function, in an environment
	// that is added to its process's. It is called for each attempt.
	Function func(env map[string]string) (string, error)
	Slots    int    // attempts that run at once; more are told to come again
	Threads  int    // that a function may use; 0: as many as the job says
	Dir      string // where the files of attempts lie while they run: the endpoint's alone
	Log      *zap.Logger

	// Jobs limits the URLs of jobs whose calls are taken: those with this scheme
	// and host, with this port if it has one, and with a path below its own. ""
	// takes any, but no environment from them: what a process's environment says
	// may be what code it runs.
	Jobs string
	// TLS returns how to talk to a job whose certificate an authority signs that
	// is known by its fingerprint alone. nil: no such job can be reached.
	TLS func(fingerprint [sha256.Size]byte) *tls.Config
}

// Endpoint answers the URL of a function. It is safe for concurrent use.
type Endpoint struct {
	config Config
	jobs   *url.URL // nil: any

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // attempts

	mu     sync.Mutex // guards the rest
	runs   map[key]*run
	recent []key // of runs that are over and kept, oldest first
	free   []int // slots
	closed bool
}

// New returns an endpoint. The caller closes it. Invalid: the configuration.
func New(c Config) (*Endpoint, error) {
	const op = "endpoint.new"
	e := &Endpoint{config: c, runs: map[key]*run{}}
	if c.Slots < 1 || c.Slots > config.MaxSlots {
		return nil, fault.New(op, fault.Invalid, "slots %d: give 1 to %d", c.Slots, config.MaxSlots)
	}
	if c.Jobs != "" {
		if err := config.CheckURL(c.Jobs); err != nil {
			return nil, fault.New(op, fault.Invalid, "job-url: %w", err)
		}
		e.jobs, _ = url.Parse(c.Jobs) // it was just checked
	}
	for i := c.Slots - 1; i >= 0; i-- {
		e.free = append(e.free, i)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Close cancels what runs and returns when nothing does any more, and no file is
// left of it. It may be called again.
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
}

// isHealth reports whether a platform asks at path whether the endpoint is there:
// /_/health and /_/ready are where OpenFaaS does.
func isHealth(path string) bool {
	return slices.Contains([]string{"/health", "/healthz", "/_/health", "/_/ready"}, path)
}

// ServeHTTP takes calls, POST at any path, and says at /health, and where
// platforms ask, that it is there.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		e.called(w, r)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && isHealth(r.URL.Path):
		e.health(w)
	default:
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, fault.New("endpoint.serve", fault.Invalid,
			"%.20s: a function is called by POST, with its arguments in the URL; GET /health says whether it can be", r.Method))
	}
}

// Health is what GET /health answers.
type Health struct {
	Slots int `json:"slots"`
	Busy  int `json:"busy"` // of them
}

// health says 200 as long as calls are taken.
func (e *Endpoint) health(w http.ResponseWriter) {
	e.mu.Lock()
	h, closed := Health{Slots: e.config.Slots, Busy: e.config.Slots - len(e.free)}, e.closed
	e.mu.Unlock()
	if closed {
		fail(w, http.StatusServiceUnavailable, errClosed)
		return
	}
	send(w, http.StatusOK, encode(h))
}

var errClosed = fault.New("endpoint.call", fault.Unavailable, "the endpoint is closed")

// takes reports whether calls of a job with that URL are taken.
func (e *Endpoint) takes(job string) bool {
	u, err := url.Parse(job)
	return err == nil && (e.jobs == nil || isBelow(u, e.jobs))
}

// isBelow reports whether a URL is one of those that begin like another one.
func isBelow(u, top *url.URL) bool {
	if u.Scheme != top.Scheme || u.Hostname() != top.Hostname() || top.Port() != "" && u.Port() != top.Port() {
		return false
	}
	path := u.JoinPath().EscapedPath() // without . and ..
	begin := top.JoinPath("/").EscapedPath()
	return path == begin || len(path) >= len(begin) && path[:len(begin)] == begin || path+"/" == begin
}

// busyFor is after how many seconds somebody who found no slot asks again.
const busyFor = 1

// busy tells a caller to come again.
func busy(w http.ResponseWriter, slots int) {
	w.Header().Set("Retry-After", strconv.Itoa(busyFor))
	fail(w, http.StatusTooManyRequests, fault.New("endpoint.call", fault.Unavailable, "all %d slots are taken", slots))
}
