// Package fake runs functions that cost, crash, hang and answer garbage as a
// seed says, for simulations of a whole company.
//
// Two functions are known. "ledger" keeps books: its model counts, for every
// training sample, how often it was trained, so that the final model proves
// that each was trained exactly once an epoch. "noop" answers a copy of its
// input, for benchmarks. Neither reads the data set: Data.Samples is enough.
package fake

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// The functions.
const (
	Ledger = "ledger"
	NoOp   = "noop"
)

// Config says what the functions cost and how often they misbehave. The zero
// value costs nothing and is well-behaved.
type Config struct {
	Seed uint64 // of all misbehaviour and jitter

	Base      time.Duration // cost of an invocation
	PerSample time.Duration // and of each of its samples
	Jitter    float64       // the cost is multiplied by 1 to 1+Jitter, evenly drawn

	// Probabilities that an attempt to train or validate misbehaves so. At most
	// one of them happens; together they should not exceed 1. Garbage happens
	// to training alone.
	Crash, Hang, Raise                                 float64
	NaN, WrongShape, WrongDType, WrongName, FewSamples float64

	// Script, unless nil, has the last word on what an attempt does: it gets
	// what was drawn and returns what happens. It must be pure.
	Script func(inv functions.Invocation, drawn Behaviour) Behaviour

	// Sleep waits for what a run takes, or until ctx ends, whose error it then
	// returns. Nil means that nobody waits: the caller reads Plan and lets its
	// own clock run.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Runtime acts out a Config.
type Runtime struct {
	config Config
	closed atomic.Bool
}

var _ functions.Runtime = (*Runtime)(nil)

// New returns a runtime.
func New(config Config) *Runtime { return &Runtime{config: config} }

// Has implements functions.Runtime.
func (r *Runtime) Has(function string) bool { return function == Ledger || function == NoOp }

// Close implements functions.Runtime.
func (r *Runtime) Close() error {
	r.closed.Store(true)
	return nil
}

// Run implements functions.Runtime: it does what Plan says. A crash, and
// sabotage that kills, is Unavailable; a raise is UserCode.
func (r *Runtime) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	if err := r.accept(inv); err != nil {
		return functions.Answer{}, err
	}
	if err := r.suffer(ctx, inv); err != nil {
		if ended := ctx.Err(); ended != nil {
			err = fault.New("fake.run", fault.Unavailable, "function %q was cancelled: %w", inv.Function, ended)
		}
		return functions.Answer{}, err
	}
	switch inv.Task {
	case functions.Init:
		return r.init(inv)
	case functions.Val:
		return r.validate(inv)
	default:
		return r.train(inv)
	}
}

func (r *Runtime) accept(inv functions.Invocation) error {
	switch {
	case r.closed.Load():
		return fault.New("fake.run", fault.Unavailable, "the runtime is closed")
	case !r.Has(inv.Function):
		return fault.New("fake.run", fault.NotFound, "no function %q: there are %s, %s", inv.Function, Ledger, NoOp)
	case inv.Task == functions.Init:
		return nil
	case inv.Task != functions.Train && inv.Task != functions.Val:
		return fault.New("fake.run", fault.Invalid, "no task %q", inv.Task)
	case inv.BatchSize < 1 || len(inv.Positions) == 0:
		return fault.New("fake.run", fault.Invalid, "%d positions in batches of %d: give at least 1 of each", len(inv.Positions), inv.BatchSize)
	}
	for _, p := range inv.Positions {
		if p < 0 || p >= inv.Data.Samples {
			return fault.New("fake.run", fault.Invalid, "position %d not in [0, %d)", p, inv.Data.Samples)
		}
	}
	return nil
}

// suffer lets time pass and misfortune happen.
func (r *Runtime) suffer(ctx context.Context, inv functions.Invocation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	plan := r.config.Plan(inv)
	if plan.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.config.Sleep != nil && plan.Took > 0 {
		if err := r.config.Sleep(ctx, plan.Took); err != nil {
			return err
		}
	}
	if plan.Crash {
		return fault.New("fake.run", fault.Unavailable, "function %q: its worker crashed", inv.Function)
	}
	if plan.Raise {
		e := fault.New("fake.run", fault.UserCode, "function %q raised", inv.Function)
		e.Trace = "fake.go: raise"
		return e
	}
	return nil
}
