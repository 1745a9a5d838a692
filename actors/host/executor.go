package host

import (
	"context"
	"errors"
	"io"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// Executor executes attempts on this machine: it finds function, data and
// model, has a runtime run them, and lets no answer out that may not enter a
// merge. All fields but Prepare, Printed and Threads are required; they are not changed once it is
// in use. It is safe for concurrent use.
type Executor struct {
	Runtimes []functions.Runtime // the first that has a function runs it
	// Prepare is for a node that gets functions, data and models of others: it has one
	// of the runtimes have the function of an attempt. An attempt there begins once
	// all that is here, which may take long. Nil: all is here. Errors are those of
	// Runtime.Run.
	Prepare func(context.Context, *messages.RoundPlan) error
	// Printed is for a node that keeps no logs: it brings what functions have printed
	// to where it is kept, before an attempt ends. Nil: it is there.
	Printed  func(context.Context)
	Space    plane.Space // holds the models and takes the answers
	Datasets Datasets
	Threads  int           // that a function may use; 0: as it likes
	Nonce    func() uint64 // never the same twice while Space lives

	permutations permutations
	splits       splits
	models       tensor.Checker
	optimizers   tensor.Checker
}

// Datasets is where an executor gets its data.
type Datasets interface {
	// Files returns the arrays of a data set as files of this machine, checked.
	// They are only read. It is safe for concurrent use, and cheap once done.
	Files(ctx context.Context, name, digest string) (dataset.Files, error)
}

// Execute runs an attempt to its end on a slot. Began is called, any number of
// times, once a function is at work that may take long to start, or all is here that
// an attempt gets from other nodes first; nil: nobody wants to know. The tensors of the answer lie
// in Space and belong to the caller; without an answer nothing is left there.
// DurationUs is not set. Errors, besides those of functions.Runtime.Run:
//   - wrapping ctx.Err(): ctx ended first
//   - Invalid, NotFound, Corrupt: the invocation cannot work, what it names is
//     not here, or cannot be read
//   - Unavailable: no room for the answer, among others
//   - Rejected: the answer may not be used; the text says why, naming the
//     tensor if it is one
func (e *Executor) Execute(ctx context.Context, inv *messages.Invoke, slot int, began func()) (*messages.Invoked, error) {
	if began == nil {
		began = func() {}
	}
	x := &execution{executor: e, inv: inv, slot: slot, began: began, nonce: e.Nonce()}
	defer x.close()
	answer, err := x.run(ctx)
	if e.Printed != nil {
		e.Printed(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, x.warnings.with(errors.Join(err, x.discard()))
	}
	answer.Warnings = x.warnings
	return answer, nil
}

// starts reports whether the function of an attempt calls began.
func (e *Executor) starts(inv *messages.Invoke) bool { return e.gathers(inv) || e.elsewhere(inv) }

// gathers reports whether an attempt may first have to get from other nodes what it
// is to begin with.
func (e *Executor) gathers(inv *messages.Invoke) bool {
	if e.Prepare != nil {
		return true
	}
	for _, ref := range []*messages.TensorRef{inv.GetPlan().GetModel(), inv.GetOptimizer(), inv.GetResidual()} {
		if ref != nil && ref.GetNode() != inv.GetNode() {
			return true
		}
	}
	return false
}

// elsewhere reports whether the function of an attempt runs at an endpoint.
func (e *Executor) elsewhere(inv *messages.Invoke) bool {
	function := functionOf(inv.GetPlan())
	runtime, err := e.runtime(function)
	return err == nil && startsLate(runtime, function)
}

// startsLate reports whether a runtime says when a function is at work.
func startsLate(runtime functions.Runtime, function string) bool {
	starter, ok := runtime.(functions.Starter)
	return ok && starter.Starts(function)
}

// runtime returns the runtime that has a function.
func (e *Executor) runtime(function string) (functions.Runtime, error) {
	for _, r := range e.Runtimes {
		if r.Has(function) {
			return r, nil
		}
	}
	return nil, fault.New("host.execute", fault.NotFound, "there is no function %q on this node", function)
}

// execution is one attempt being executed.
type execution struct {
	executor *Executor
	inv      *messages.Invoke
	slot     int
	began    func()
	nonce    uint64
	split    *split          // the data; nil before it was opened
	residual functions.Input // what the function's last encoded answer lacked; Size 0: nothing
	open     []io.Closer     // what is read of the plane
	outputs  []*output       // what is written
	warnings warnings
}

func (x *execution) run(ctx context.Context) (*messages.Invoked, error) {
	function := functionOf(x.inv.GetPlan())
	if x.executor.Prepare != nil {
		if err := x.executor.Prepare(ctx, x.inv.GetPlan()); err != nil {
			return nil, err
		}
	}
	runtime, err := x.executor.runtime(function)
	if err != nil {
		return nil, err
	}
	call, err := x.invocation(ctx)
	if err != nil {
		return nil, err
	}
	if x.executor.gathers(x.inv) && !startsLate(runtime, function) {
		x.began()
	}
	encoded, err := encodes(x.inv)
	if err != nil {
		return nil, err
	}
	model, optimizer := x.output(modelKey(encoded), &x.executor.models), x.output(keyOptimizer, &x.executor.optimizers)
	model.what = keyModel // whatever its key
	switch call.Task {
	case functions.Train:
		if x.inv.GetPlan().GetWantOptimizer() {
			call.OptimizerOut = optimizer
		}
		call.ModelOut = model
	case functions.Init:
		call.ModelOut = model
	}
	model.full, call.Warn = call.Sabotage.DiskFull, x.warnings.add
	got, err := runtime.Run(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := checkCounts(call, got); err != nil {
		return nil, err
	}
	answer := &messages.Invoked{
		Attempt: x.inv.GetAttempt(), Samples: uint64(got.Samples), Batches: uint32(got.Batches),
		Loss: got.Loss, NoLoss: got.NoLoss, Correct: got.Correct, HasAccuracy: got.HasAccuracy,
		Metrics: metricsOf(got.Metrics),
	}
	x.sabotage(ctx, call.Sabotage, model, optimizer, call.OptimizerOut != nil && got.HasOptimizer)
	if call.ModelOut != nil {
		if answer.Model, err = model.seal(ctx, reference(call)); err != nil {
			return nil, err
		}
	}
	if call.OptimizerOut != nil && got.HasOptimizer {
		if answer.Optimizer, err = optimizer.seal(ctx, tensor.Source{}); err != nil {
			return nil, err
		}
	}
	if encoded {
		answer.Model, answer.Residual, err = x.encode(ctx, answer.GetModel(), call.Model)
	}
	return answer, err
}

// reference is the model that an answer has to look like; none for an init.
func reference(call functions.Invocation) tensor.Source {
	return tensor.Source{R: call.Model.R, Size: call.Model.Size}
}

func (x *execution) key(part string) string { return answerKey(x.inv.GetAttempt(), x.nonce, part) }
