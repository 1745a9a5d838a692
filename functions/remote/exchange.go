package remote

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/troupe-ml/troupe/functions"
)

// Next waits for the merge of a function's round, and is what POST /next answers
// with: nil once the round of ref is merged, whether that was before or after the
// call. An error when that will not come to be: the attempt failed, the job has
// ended. It returns when ctx ends. Note that ref counts rounds and attempts from
// 0. It is called for functions.Train only, from any goroutine.
type Next func(ctx context.Context, ref Ref) error

// Exchange is the job's side of functions over HTTP: an http.Handler that serves
// the open attempts of all jobs of a process. It is safe for concurrent use.
type Exchange struct {
	next  Next
	pages *http.CrossOriginProtection
	jobs  http.Handler

	mu   sync.Mutex            // guards open
	open map[string][]*attempt // by job; attempts whose Run lasts, none of them an empty list
}

// NewExchange returns an exchange without attempts. Next is required.
func NewExchange(next Next) *Exchange {
	e := &Exchange{next: next, pages: http.NewCrossOriginProtection(), open: map[string][]*attempt{}}
	e.jobs = e.handler("/jobs/{job}", func(r *http.Request) string { return r.PathValue("job") })
	return e
}

// ServeHTTP serves /jobs/{id}/…: what follows the id is what Job serves.
func (e *Exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.jobs.ServeHTTP(w, r) }

// Paths are the patterns of http.ServeMux, without a method, that Job answers:
// for whoever serves a job's other paths beside them.
func Paths() []string {
	return []string{"/assignment/{func}", "/data/{func}", "/model", "/model/{func}", "/optimizer/{func}", "/next/{func}"}
}

// Job returns the handler of one job's Paths. Calls that name no open attempt of
// the job change nothing: 401 without a token where one is needed, 403 with
// another one, 409 otherwise.
func (e *Exchange) Job(id string) http.Handler {
	return e.handler("", func(*http.Request) string { return id })
}

// handler serves Paths below a prefix, about the job that a request is about.
func (e *Exchange) handler(prefix string, job func(*http.Request) string) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []struct {
		method, path string
		serve        func(*exchanged) error
	}{
		{"GET", "/assignment/{func}", (*exchanged).assignment},
		{"GET", "/data/{func}", (*exchanged).data},
		{"GET", "/model", (*exchanged).model},
		{"PUT", "/model/{func}", (*exchanged).putModel},
		{"GET", "/optimizer/{func}", (*exchanged).optimizer},
		{"PUT", "/optimizer/{func}", (*exchanged).putOptimizer},
		{"POST", "/next/{func}", (*exchanged).next},
	} {
		mux.HandleFunc(path.method+" "+prefix+path.path, func(w http.ResponseWriter, r *http.Request) { e.serve(job(r), w, r, path.serve) })
	}
	for _, path := range Paths() {
		mux.HandleFunc(prefix+path, wrongMethod)
	}
	mux.HandleFunc("/", noSuchPath)
	return mux
}

// begin opens an attempt, whose requests carry the token.
func (e *Exchange) begin(inv functions.Invocation, token string) *attempt {
	a := newAttempt(inv, token)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open[inv.JobID] = append(e.open[inv.JobID], a)
	return a
}

// end closes an attempt: when it returns nothing of the invocation is touched
// any more, and the requests that did are ending.
func (e *Exchange) end(a *attempt) {
	e.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(e.open[a.ref.Job]), func(b *attempt) bool { return a == b })
	if len(left) == 0 {
		delete(e.open, a.ref.Job)
	} else {
		e.open[a.ref.Job] = left
	}
	e.mu.Unlock()
	a.close()
}

// attempts returns the attempts of a job that still take requests.
func (e *Exchange) attempts(job string) []*attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	var open []*attempt
	for _, a := range e.open[job] {
		if !a.settled() {
			open = append(open, a)
		}
	}
	return open
}
