package isolate

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// attempt is one invocation on its way through a child.
type attempt struct {
	rt      *Runtime
	ctx     context.Context
	inv     functions.Invocation
	temps   child.Temps
	outputs map[string]*child.Output // by name, once the child has asked for them
}

// run does the invocation. After the end of ctx its error means nothing.
func (a *attempt) run() (functions.Answer, error) {
	if err := a.ctx.Err(); err != nil {
		return functions.Answer{}, err
	}
	defer a.temps.Remove()
	request, err := newRequest(a.inv, &a.temps)
	if err != nil {
		return functions.Answer{}, err
	}
	w, err := a.rt.take(a.ctx, a.inv.Slot, child.Line{JobID: a.inv.JobID, Function: a.inv.Function, Index: a.inv.Index})
	if err != nil {
		return functions.Answer{}, err
	}
	ended := a.rt.at.Add(a.inv.JobID, a.inv.Index, func() string { return w.whereabouts(a.inv.JobID) })
	answer, err := a.exchange(w, request)
	ended()
	kind := fault.KindOf(err)
	switch {
	case a.ctx.Err() != nil:
		if errors.Is(context.Cause(a.ctx), context.DeadlineExceeded) {
			w.stack()
		}
		w.end()
		return functions.Answer{}, a.ctx.Err()
	case err != nil && kind != fault.Invalid && kind != fault.Corrupt:
		w.end() // who knows what it left behind: the next try gets a fresh one
		return functions.Answer{}, err
	}
	w.output.Drain()
	a.rt.give(w)
	return answer, err
}

// exchange sends the request and serves the child until it is done.
func (a *attempt) exchange(w *worker, r *request) (functions.Answer, error) {
	stop := context.AfterFunc(a.ctx, func() { _ = w.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := w.write(toChild{Run: r}); err != nil {
		if _, tooLong := errors.AsType[child.TooLongError](err); tooLong {
			return functions.Answer{}, fault.New("isolate.run", fault.Invalid, "the request to function %q: %w", a.inv.Function, err)
		}
		return functions.Answer{}, a.broken(w, err)
	}
	a.outputs = map[string]*child.Output{}
	for {
		var m fromChild
		if err := child.ReadFrame(w.control, &m); err != nil {
			return functions.Answer{}, a.broken(w, err)
		}
		switch {
		case m.Done != nil:
			return a.answer(m.Done)
		case m.Failed != nil:
			return functions.Answer{}, m.Failed.err()
		case m.Stacks != nil:
			w.hearStacks(*m.Stacks)
		case m.Create != nil:
			if err := a.create(w, m.Create); err != nil {
				return functions.Answer{}, err
			}
		default:
			return functions.Answer{}, a.broken(w, &child.FrameError{Text: "it sent a message that says nothing"})
		}
	}
}

// broken is the error of a child that does not do its part.
func (a *attempt) broken(w *worker, err error) error {
	how := w.ended(err)
	if a.inv.Sabotage.Kill && !w.proc.Alive() {
		return fault.New("isolate.run", fault.Unavailable, "function %q was killed on purpose", a.inv.Function)
	}
	return fault.New("isolate.run", fault.Unavailable, "the process of function %q (%d) %s", a.inv.Function, w.proc.PID, how)
}

// create reserves an output and tells the child where it is. An error of Create
// is the call's, and the end of the child.
func (a *attempt) create(w *worker, c *create) error {
	o := &child.Output{Size: c.Size}
	switch c.Output {
	case modelOut:
		o.Out = a.inv.ModelOut
	case optimizerOut:
		o.Out = a.inv.OptimizerOut
	}
	if o.Out == nil || a.outputs[c.Output] != nil || c.Size < 0 {
		return a.broken(w, &child.FrameError{Text: "it asked for an output that it may not have"})
	}
	if err := o.Reserve(&a.temps); err != nil {
		return err
	}
	a.outputs[c.Output] = o
	if err := w.write(toChild{Path: o.Path}); err != nil {
		return a.broken(w, err)
	}
	return nil
}

// answer is what the child's end means, its outputs in place.
func (a *attempt) answer(d *done) (functions.Answer, error) {
	answer := functions.Answer{
		Samples: d.Samples, Batches: d.Batches, Loss: d.Loss.float64(), Correct: d.Correct.float64(), HasAccuracy: d.HasAccuracy,
		HasOptimizer: d.HasOptimizer, Predictions: d.Predictions,
	}
	for name, m := range d.Metrics {
		if answer.Metrics == nil {
			answer.Metrics = map[string]functions.Metric{}
		}
		answer.Metrics[name] = functions.Metric{Sum: m[0].float64(), Weight: m[1].float64()}
	}
	for name, o := range a.outputs {
		if err := o.Settle(); err != nil {
			return functions.Answer{}, err
		}
		o.Out.Attest(d.CRC[name])
	}
	return answer, nil
}
