package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// Runner runs attempts on virtual time. What an attempt does is done when it
// starts, with the code that real hosts use; its end comes when its time is up.
type Runner struct {
	sim      *testkit.Sim
	space    plane.Space
	executor *host.Executor
	runtime  *timed
	nonce    uint64
	frozen   func(*messages.Invoke) time.Duration
	courses  map[string]*course // by job, on all nodes
	running  map[*messages.Invoke]bool

	// Fails, unless nil, is how each attempt ends, soon after it has begun.
	Fails error

	Running int // attempts that run now
	Most    int // that ever ran at once
	Started int
}

var _ host.Runner = (*Runner)(nil)

func newRunner(s *testkit.Sim, config Config, space plane.Space, courses map[string]*course) *Runner {
	r := &Runner{sim: s, space: space, frozen: config.Frozen, courses: courses, running: map[*messages.Invoke]bool{}}
	r.runtime = &timed{Runtime: fake.New(config.Functions), config: config.Functions}
	r.executor = &host.Executor{
		Runtimes: append([]functions.Runtime{r.runtime}, config.Runtimes...), Space: space, Datasets: config.Data,
		Nonce: func() uint64 { r.nonce++; return r.nonce },
	}
	return r
}

// Starts implements host.Runner.
func (r *Runner) Starts(*messages.Invoke) bool { return false }

// Elsewhere implements host.Runner.
func (r *Runner) Elsewhere(*messages.Invoke) bool { return false }

// Start implements host.Runner.
func (r *Runner) Start(inv *messages.Invoke, slot int, _ func(), done func(*messages.Invoked, error)) (cancel context.CancelCauseFunc) {
	r.Running++
	r.Started++
	r.Most = max(r.Most, r.Running)
	r.began(inv)
	r.running[inv] = true
	if r.Fails != nil {
		return r.fail(inv, done)
	}
	r.runtime.last = fake.Behaviour{Took: r.runtime.config.Base}
	answer, err := r.executor.Execute(context.Background(), inv, slot, nil)
	plan := r.runtime.last
	over := false
	end := func(answer *messages.Invoked, err error) {
		if !over {
			over = true
			r.Running--
			delete(r.running, inv)
			r.ended(inv)
			done(answer, err)
		}
	}
	if r.frozen != nil {
		if thaws := r.frozen(inv); thaws > 0 {
			r.sim.At(thaws+plan.Took, func() { end(answer, err) })
			return func(error) {}
		}
	}
	if !plan.Hang {
		r.sim.At(plan.Took, func() { end(answer, err) })
	}
	return func(error) {
		r.sim.At(cancelTakes, func() {
			if !over {
				r.discard(answer)
			}
			end(nil, fmt.Errorf("cancelled: %w", context.Canceled))
		})
	}
}

// failsIn is how long an attempt takes that cannot be run.
const failsIn = 2 * time.Millisecond

// fail ends an attempt without running it.
func (r *Runner) fail(inv *messages.Invoke, done func(*messages.Invoked, error)) context.CancelCauseFunc {
	r.sim.At(failsIn, func() {
		r.Running--
		delete(r.running, inv)
		r.ended(inv)
		done(nil, r.Fails)
	})
	return func(error) {}
}

// gone notes that the process of the node has ended, with all that it ran.
func (r *Runner) gone() {
	for inv := range r.running {
		r.ended(inv)
	}
}

// cancelTakes is how long a function takes to heed its context.
const cancelTakes = 5 * time.Millisecond

func (r *Runner) discard(answer *messages.Invoked) {
	for _, ref := range []*messages.TensorRef{answer.GetModel(), answer.GetOptimizer(), answer.GetResidual()} {
		if ref != nil {
			_ = r.space.Remove(ref.GetKey()) // memory: cannot fail
		}
	}
}

// timed is a fake runtime that notes what each run would have taken.
type timed struct {
	*fake.Runtime
	config fake.Config
	last   fake.Behaviour
}

var _ functions.Runtime = (*timed)(nil)

// Run implements functions.Runtime.
func (t *timed) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	t.last = t.config.Plan(inv)
	if t.last.Hang {
		return functions.Answer{}, context.Canceled // its end, once somebody cancels it
	}
	return t.Runtime.Run(ctx, inv)
}
