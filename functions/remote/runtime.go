package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
)

// Config is what a Runtime needs. Exchange and URL are required.
type Config struct {
	Exchange *Exchange
	// URL returns where Exchange serves a job: what its Job handler serves lies
	// below it. It is asked before each invocation.
	URL func(jobID string) (string, error)
	// Fingerprint returns that of the authority, in lower-case hexadecimal, whose
	// certificate the job's URL shows; "" where that has none of its own. It
	// goes into the tokens, behind a dot, for endpoints to pin it. nil: "". It is
	// asked after URL.
	Fingerprint func() string
	// Patience is how long a call waits for an endpoint that is not there, and at
	// most half of Invocation.Timeout. 0: 45 s.
	Patience time.Duration
	Log      *zap.Logger       // nil: none
	Warn     func(text string) // of what a user should know; nil: nobody
}

// Runtime runs functions behind URLs. It is safe for concurrent use.
type Runtime struct {
	config   Config
	client   *http.Client
	absences absences
	ctx      context.Context // ends with the runtime
	cancel   context.CancelFunc

	mu        sync.Mutex // guards the rest
	closed    bool
	endpoints map[string][]string // by function
	running   sync.WaitGroup      // calls of Run and of endpoints; added to while not closed
}

var (
	_ functions.Runtime = (*Runtime)(nil)
	_ functions.Starter = (*Runtime)(nil)
)

// New returns a runtime without functions. The caller closes it.
func New(config Config) *Runtime {
	config.Patience = cmp.Or(config.Patience, waitsMost)
	config.Log = cmp.Or(config.Log, zap.NewNop())
	if config.Warn == nil {
		config.Warn = func(string) {}
	}
	r := &Runtime{config: config, client: newClient(), absences: absences{of: map[string]*absence{}}, endpoints: map[string][]string{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Register makes a function known, in the place of one of the same name: the
// URLs of its endpoints, each of which runs the same. Of several, function i's
// first attempt goes to number i, its next one to the one after that, and likewise
// one whose endpoint is not there. Invalid: none, or one that cannot be called.
func (r *Runtime) Register(function string, urls ...string) error {
	if len(urls) == 0 {
		return fault.New("remote.register", fault.Invalid, "function %q has no URL", function)
	}
	for _, u := range urls {
		if _, err := parseEndpoint(u); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints[function] = slices.Clone(urls)
	return nil
}

// Has implements functions.Runtime.
func (r *Runtime) Has(function string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.endpoints[function]) > 0
}

// Near reports whether an endpoint of a function can be called on this machine alone,
// by how its URL names it.
func (r *Runtime) Near(function string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.endpoints[function], func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && (loopback.Is(u.Host) || net.ParseIP(u.Hostname()).IsUnspecified())
	})
}

// Starts implements functions.Starter: an endpoint may have to be started first.
func (r *Runtime) Starts(string) bool { return true }

// Run implements functions.Runtime. What an endpoint does not answer as one of
// ours would is Unavailable, naming what came; an answer without the model that
// was wanted is Rejected.
func (r *Runtime) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	endpoints, err := r.enter(inv)
	if err != nil {
		return functions.Answer{}, err
	}
	defer r.running.Done()
	if err := functions.Check("remote.run", inv); err != nil {
		return functions.Answer{}, err
	}
	answer, err := r.run(ctx, endpoints, inv)
	if err == nil {
		return answer, nil
	}
	if ctx.Err() != nil {
		err = fault.New("remote.run", fault.Unavailable, "function %q was cancelled: %w", inv.Function, ctx.Err())
	}
	return functions.Answer{}, err
}

var errClosed = fault.New("remote.run", fault.Unavailable, "the runtime of remote functions is closed")

// enter begins a call and returns the endpoints that may get it, the first choice
// first.
func (r *Runtime) enter(inv functions.Invocation) (endpoints []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	urls := r.endpoints[inv.Function]
	switch {
	case r.closed:
		return nil, errClosed
	case len(urls) == 0:
		return nil, fault.New("remote.run", fault.NotFound, "no endpoint of function %q is known here", inv.Function)
	}
	r.running.Add(1)
	first := (inv.Index + inv.Attempt) % len(urls)
	return append(slices.Clone(urls[first:]), urls[:first]...), nil
}

// run has one of the endpoints run an attempt.
func (r *Runtime) run(ctx context.Context, endpoints []string, inv functions.Invocation) (functions.Answer, error) {
	jobURL, err := r.config.URL(inv.JobID)
	if err != nil {
		return functions.Answer{}, err
	}
	var targets []target
	for _, endpoint := range endpoints {
		call, err := CallOf(inv, jobURL).URL(endpoint)
		if err != nil {
			return functions.Answer{}, err
		}
		targets = append(targets, target{endpoint, call})
	}
	fingerprint := ""
	if r.config.Fingerprint != nil {
		fingerprint = r.config.Fingerprint()
	}
	token := newToken(fingerprint)
	a := r.config.Exchange.begin(inv, token)
	defer r.config.Exchange.end(a)

	call, cancel := context.WithCancel(r.ctx)
	left := context.AfterFunc(ctx, cancel)
	ended := make(chan error, 1)
	r.running.Add(1) // Run's own is still there
	go func() {
		defer r.running.Done()
		defer cancel()
		ended <- r.call(call, a, targets)
	}()
	select {
	case err = <-ended:
	case <-a.done:
	case <-ctx.Done():
	}
	switch {
	case a.settled() && a.err == nil && ctx.Err() == nil:
		// By POST /next, perhaps: its function waits for the merge now, and is
		// let go on to its end.
		if left() {
			timer := time.AfterFunc(lingers, cancel)
			context.AfterFunc(call, func() { timer.Stop() })
		}
		return a.answer, nil
	case a.settled():
		err = a.err
	case ctx.Err() != nil:
		err = ctx.Err()
	case r.ctx.Err() != nil:
		err = errClosed
	}
	cancel()
	return functions.Answer{}, err
}

// lingers is how long the call of a function may go on that has given its results.
const lingers = 10 * time.Minute

// Close implements functions.Runtime: it ends the calls that run and waits for
// them.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.running.Wait()
	r.client.CloseIdleConnections()
	return nil
}

// newToken returns what the requests of an attempt are known by.
func newToken(fingerprint string) string {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	token := hex.EncodeToString(secret)
	if fingerprint != "" {
		token += "." + fingerprint
	}
	return token
}
