package remote

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// errOver is what requests of an attempt meet that ends meanwhile.
var errOver = fault.New("remote.exchange", fault.Conflict, "the attempt is over")

// attempt is one that is open: its Run lasts. It ends when it is settled, by
// whatever is first, or with its Run.
type attempt struct {
	ref   Ref
	token string
	inv   functions.Invocation

	models     *served // what GET gives; nil: there is none
	optimizers *served
	rows       func() (*served, error) // made by the first who asks
	modelPut   *upload                 // what PUT takes; nil: it is not wanted
	statePut   *upload
	strike     *strike

	done chan struct{} // closed when it is settled
	over chan struct{} // closed when its Run is over

	hasBegun atomic.Bool // the function has asked for something

	mu       sync.Mutex // guards what follows
	answer   functions.Answer
	err      error // with answer: valid once done is closed
	isDone   bool
	isOver   bool
	requests map[*http.ResponseController]bool // that are being served

	// gate is held, shared, while the invocation's inputs are read, and alone
	// while its outputs are written or it closes.
	gate   sync.RWMutex
	closed bool // guarded by gate: the invocation is not touched any more
}

func newAttempt(inv functions.Invocation, token string) *attempt {
	a := &attempt{
		ref: RefOf(inv), token: token, inv: inv, strike: newStrike(inv.Sabotage),
		done: make(chan struct{}), over: make(chan struct{}), requests: map[*http.ResponseController]bool{},
	}
	if inv.Task != functions.Init {
		a.models = a.serveInput(inv.Model)
	}
	if inv.Optimizer.Size > 0 {
		a.optimizers = a.serveInput(inv.Optimizer)
	}
	a.rows = sync.OnceValues(func() (*served, error) {
		rows, err := newArchive(inv, func(in functions.Input) io.ReaderAt { return gated{a, in.R} })
		if err != nil {
			return nil, err
		}
		return &served{r: rows, size: rows.size, digest: func() (Digest, error) { return rows.digest, nil }}, nil
	})
	if inv.ModelOut != nil {
		a.modelPut = &upload{what: "model", out: inv.ModelOut}
		if inv.Task == functions.Train {
			a.modelPut.most = inv.Model.Size + headerRoom
		}
	}
	if inv.OptimizerOut != nil {
		a.statePut = &upload{what: "optimizer state", out: inv.OptimizerOut}
	}
	return a
}

func (a *attempt) serveInput(in functions.Input) *served {
	return newServed(gated{a, in.R}, in.Size)
}

// settle ends the attempt with an error, or with an answer whose outputs are
// complete; reports whether it was the first to do so.
func (a *attempt) settle(answer functions.Answer, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isDone {
		return false
	}
	if err != nil {
		answer = functions.Answer{}
	}
	a.isDone, a.answer, a.err = true, answer, err
	close(a.done)
	return true
}

// finish settles the attempt with what its function says it did, if that is an
// answer and its outputs are there. Rejected: it is not; Conflict: the attempt
// has ended, or an output is missing.
func (a *attempt) finish(ctx context.Context, results FunctionResults) error {
	const op = "remote.finish"
	answer, err := results.Answer(a.inv)
	if err != nil {
		return err
	}
	if err := a.struck(ctx, atLast); err != nil {
		return err
	}
	for _, u := range []*upload{a.modelPut, a.statePut} {
		if u == nil {
			continue
		}
		u.mu.Lock() // until it is settled, so that none begins meanwhile
		defer u.mu.Unlock()
		switch {
		case u.begun && !u.whole:
			return fault.New(op, fault.Conflict, "the %s is still being put: that ends before the results come", u.what)
		case u == a.modelPut && !u.whole:
			return fault.New(op, fault.Conflict, "the function wrote no model: PUT /model/%d comes before the results", a.ref.Function)
		case u == a.statePut:
			answer.HasOptimizer = u.whole
		}
	}
	if !a.settle(answer, nil) {
		return errOver
	}
	return nil
}

func (a *attempt) settled() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// close ends the attempt's requests. When it returns none of them touches the
// invocation.
func (a *attempt) close() {
	a.settle(functions.Answer{}, errOver)
	a.gate.Lock()
	a.closed = true
	a.gate.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isOver = true
	close(a.over)
	for r := range a.requests {
		cutOff(r)
	}
}

// enter notes a request that is served, and reports whether the attempt still
// takes it; leave is called when it is over, or is to outlast the attempt.
func (a *attempt) enter(r *http.ResponseController) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isOver {
		return nil, false
	}
	a.requests[r] = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.requests, r)
	}, true
}

// cutOff frees a request that waits for a client which neither sends nor takes.
// Where the connection has no deadlines the server that has it ends it.
func cutOff(r *http.ResponseController) {
	_ = r.SetReadDeadline(time.Unix(1, 0))
	_ = r.SetWriteDeadline(time.Now().Add(parting))
}

// began tells whoever asked that the function is at work, and strikes if that
// is its time.
func (a *attempt) began(ctx context.Context) error {
	a.hasBegun.Store(true)
	if a.inv.Began != nil {
		a.inv.Began()
	}
	return a.struck(ctx, atFirst)
}

// gated reads an input for as long as the attempt lasts.
type gated struct {
	a *attempt
	r io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (g gated) ReadAt(p []byte, off int64) (int, error) {
	g.a.gate.RLock()
	defer g.a.gate.RUnlock()
	if g.a.closed {
		return 0, errOver
	}
	return g.r.ReadAt(p, off)
}

// write touches an output, for as long as the attempt lasts.
func (a *attempt) write(do func() error) error {
	a.gate.Lock()
	defer a.gate.Unlock()
	if a.closed || a.settled() {
		return errOver
	}
	return do()
}
