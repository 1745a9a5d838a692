// Package native runs functions written in Go, in this process. Softmax and
// mlp are built in; New takes more:
//
//	runtime, err := native.New(native.Function{
//		Name: "mine",
//		Args: []native.Arg{native.Number("decay", 0, 0, 1, "weight decay")},
//		Init: func(c *native.Call) error { … name and fill the tensors of c.Model … },
//		Open: func(c *native.Call) (native.Model, error) { … },
//	})
//
// Results are the same bits for the same invocation on the same kind of CPU.
// That holds for gonum's BLAS too, whose products of large matrices run on
// several goroutines: each block of the result is summed by one of them, along
// the inner dimension in ascending order, and how blocks are cut depends on the
// sizes alone, not on GOMAXPROCS. So Invocation.Threads changes nothing here.
package native

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Runtime runs Go functions. It owns no goroutine: each Run happens on its
// caller's, so a function that ignores the end of its context holds that.
type Runtime struct {
	functions map[string]Function // fixed after New
	alone     bool                // fixed before the first Run
	closed    atomic.Bool
}

var _ functions.Runtime = (*Runtime)(nil)

// New returns a runtime of the built-in functions and those given. Errors:
// Invalid (a function that cannot work), Conflict (a name twice, or that of a
// built-in one).
func New(own ...Function) (*Runtime, error) {
	r := &Runtime{functions: map[string]Function{}}
	for _, f := range append([]Function{softmax(), mlp()}, own...) {
		if err := f.check(); err != nil {
			return nil, err
		}
		if r.Has(f.Name) {
			return nil, fault.New("native.new", fault.Conflict, "there is a function %q already: name it otherwise", f.Name)
		}
		r.functions[f.Name] = f
	}
	return r, nil
}

// Alone says, before the first Run, that this process is there for the runtime's
// functions and nothing else. Sabotage then strikes the process, with its group,
// as it strikes other workers: to kill is SIGKILL, to freeze is SIGSTOP.
func (r *Runtime) Alone() { r.alone = true }

// Functions returns the functions, by name ascending.
func (r *Runtime) Functions() []Function {
	list := slices.Collect(maps.Values(r.functions))
	slices.SortFunc(list, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Names returns the functions' names, ascending.
func (r *Runtime) Names() []string { return slices.Sorted(maps.Keys(r.functions)) }

// Has implements functions.Runtime.
func (r *Runtime) Has(function string) bool {
	_, ok := r.functions[function]
	return ok
}

// Close implements functions.Runtime. Calls that run go on to their end.
func (r *Runtime) Close() error {
	r.closed.Store(true)
	return nil
}

// Run implements functions.Runtime. A panic of the function is a UserCode error
// with the stack as its trace.
func (r *Runtime) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	f, err := r.accept(inv)
	if err != nil {
		return functions.Answer{}, err
	}
	if err := ctx.Err(); err != nil {
		return functions.Answer{}, cancelled(f.Name, err)
	}
	run := &run{inv: inv, function: f, alone: r.alone}
	var answer functions.Answer
	labelled(ctx, inv, func(ctx context.Context) {
		run.ctx = ctx
		answer, err = run.guarded()
	})
	if err != nil {
		return functions.Answer{}, run.classify(err)
	}
	return answer, nil
}

// accept checks what can be checked without reading anything.
func (r *Runtime) accept(inv functions.Invocation) (Function, error) {
	f, ok := r.functions[inv.Function]
	switch {
	case r.closed.Load():
		return f, fault.New("native.run", fault.Unavailable, "the runtime of Go functions is closed")
	case !ok:
		names := slices.Sorted(maps.Keys(r.functions))
		return f, fault.New("native.run", fault.NotFound, "no Go function %q: there are %s", inv.Function, strings.Join(names, ", "))
	}
	switch inv.Task {
	case functions.Init, functions.Infer:
		return f, nil
	case functions.Train, functions.Val:
	default:
		return f, fault.New("native.run", fault.Invalid, "a Go function has no task %q: it knows init, train, val and infer", inv.Task)
	}
	if inv.BatchSize < 1 {
		return f, fault.New("native.run", fault.Invalid, "batch size %d: give at least 1", inv.BatchSize)
	}
	if len(inv.Positions) == 0 {
		return f, fault.New("native.run", fault.Invalid, "no positions to %s: give at least one", inv.Task)
	}
	if inv.Task == functions.Train && (math.IsNaN(inv.LR) || math.IsInf(inv.LR, 0)) {
		return f, fault.New("native.run", fault.Invalid, "learning rate %v: give a finite number", inv.LR)
	}
	return f, nil
}
