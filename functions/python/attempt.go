package python

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// attempt is one invocation on its way through a worker.
type attempt struct {
	rt      *Runtime
	program *program
	ctx     context.Context
	inv     functions.Invocation

	temps   child.Temps
	outputs map[string]*child.Output // by name, once the worker has asked for them
}

// The names of outputs in messages.
const (
	modelOut     = "model"
	optimizerOut = "optimizer"
)

// fromWorker is what a worker says: one of these.
type fromWorker struct {
	Batch  *int             `json:"batch"`
	Create map[string]int64 `json:"create"` // bytes by output
	Done   *done            `json:"done"`
	Failed *failure         `json:"failed"`
}

// run does the invocation. After the end of ctx its error means nothing.
func (a *attempt) run() (functions.Answer, error) {
	if err := a.ctx.Err(); err != nil {
		return functions.Answer{}, err
	}
	a.temps.Dir = a.rt.dir
	defer a.temps.Remove()
	request, err := a.request()
	if err != nil {
		return functions.Answer{}, err
	}
	if a.inv.Fresh {
		a.program.refresh(a.inv.Slot)
	}
	owner := Line{JobID: a.inv.JobID, Function: a.inv.Function, Index: a.inv.Index}
	w, err := a.program.take(a.ctx, a.settings(), owner)
	if err != nil {
		return functions.Answer{}, err
	}
	if text := a.program.slowness(); text != "" {
		a.warn("", text)
	}
	ended := a.rt.at.Add(a.inv.JobID, a.inv.Index, func() string {
		return strings.Join(a.rt.stackOf(w.proc, w.stacks, a.program.Path), "\n")
	})
	answer, err := a.exchange(w, request)
	ended()
	kind := fault.KindOf(err)
	switch {
	case a.ctx.Err() != nil:
		var stack []string
		if outOfTime(a.ctx) {
			stack = a.rt.stackOf(w.proc, w.stacks, a.program.Path)
		}
		a.program.drop(w)
		a.rt.say(owner, stack) // after all that it printed
		return functions.Answer{}, a.ctx.Err()
	case err != nil && kind != fault.Invalid && kind != fault.Corrupt:
		a.program.drop(w) // who knows what it left behind: the next try gets a fresh one
		return functions.Answer{}, err
	}
	w.output.Drain()
	a.program.give(w)
	return answer, err
}

func (a *attempt) settings() settings {
	threads := a.inv.Threads
	if threads == 0 {
		threads = a.rt.config.Threads
	}
	if threads == 0 {
		threads = max(1, a.rt.cores.each)
	}
	return settings{Slot: a.inv.Slot, Threads: threads, Memory: a.rt.config.MemoryLimit}
}

// exchange sends the request and serves the worker until it is done.
func (a *attempt) exchange(w *worker, request toWorker) (functions.Answer, error) {
	stop := context.AfterFunc(a.ctx, func() { _ = w.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if a.inv.Task != functions.Train && a.inv.Task != functions.Val {
		if err := a.strike(w); err != nil {
			return functions.Answer{}, err
		}
	}
	if err := child.WriteFrame(w.control, request); err != nil {
		if _, tooLong := errors.AsType[child.TooLongError](err); tooLong {
			return functions.Answer{}, fault.New("python.run", fault.Invalid, "the request to function %q: %w", a.program.title(), err)
		}
		return functions.Answer{}, a.broken(w, err)
	}
	for {
		var m fromWorker
		if err := child.ReadFrame(w.control, &m); err != nil {
			return functions.Answer{}, a.broken(w, err)
		}
		switch {
		case m.Done != nil:
			a.warn(a.inv.JobID, m.Done.Warnings...)
			return a.answer(m.Done)
		case m.Failed != nil:
			a.warn(a.inv.JobID, m.Failed.Warnings...)
			return functions.Answer{}, m.Failed.fault(a.program.title())
		case m.Create != nil:
			if err := a.create(w, m.Create); err != nil {
				return functions.Answer{}, err
			}
		case m.Batch != nil:
			if a.inv.Sabotage.Kill && *m.Batch == request.Run.Sabotage.KillAtBatch {
				return functions.Answer{}, a.killed(w)
			}
			if a.inv.Sabotage.Freeze && *m.Batch == request.Run.Sabotage.HangAtBatch {
				w.proc.Freeze()
			}
		default:
			return functions.Answer{}, a.broken(w, &child.FrameError{Text: "it sent a message that says nothing"})
		}
	}
}

// outOfTime reports whether ctx has ended because the function had its time.
func outOfTime(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// say puts lines into the log of an owner, as if it had printed them.
func (r *Runtime) say(owner Line, texts []string) {
	for _, text := range texts {
		owner.Text = text
		r.config.Log(owner)
	}
}

// strike does to a task without batches what sabotage asks for.
func (a *attempt) strike(w *worker) error {
	s := a.inv.Sabotage
	var slow <-chan time.Time
	switch {
	case s.Kill:
		return a.killed(w)
	case s.Freeze:
		w.proc.Freeze()
	case s.Hang:
	case s.Slow > 0:
		timer := time.NewTimer(s.Slow)
		defer timer.Stop()
		slow = timer.C
	default:
		return nil
	}
	select {
	case <-slow:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// killed kills the worker, really.
func (a *attempt) killed(w *worker) error {
	w.proc.Kill()
	return fault.New("python.run", fault.Unavailable, "function %q was killed on purpose", a.program.title())
}

// broken is the error of a worker that does not do its part.
func (a *attempt) broken(w *worker, err error) error {
	return fault.New("python.run", fault.Unavailable, "the worker of function %q (process %d) %s", a.program.title(), w.proc.PID, w.proc.Ended(err))
}

// create reserves the outputs that the worker asks for, and tells it where they
// are. An error of Create is the call's; the worker hears it as well.
func (a *attempt) create(w *worker, sizes map[string]int64) error {
	if a.outputs != nil {
		return a.broken(w, &child.FrameError{Text: "it asked for its outputs twice"})
	}
	a.outputs = map[string]*child.Output{}
	paths := map[string]string{}
	for name, size := range sizes {
		o := &child.Output{Size: size}
		switch name {
		case modelOut:
			o.Out = a.inv.ModelOut
		case optimizerOut:
			o.Out = a.inv.OptimizerOut
		}
		if size < 0 {
			return a.broken(w, &child.FrameError{Text: "it asked for less than no bytes"})
		}
		if err := o.Reserve(&a.temps); err != nil {
			return err
		}
		a.outputs[name], paths[name] = o, o.Path
	}
	if err := child.WriteFrame(w.control, map[string]any{"paths": paths}); err != nil {
		return a.broken(w, err)
	}
	return nil
}

// answer is what the worker's end means, its outputs in place.
func (a *attempt) answer(d *done) (functions.Answer, error) {
	answer := functions.Answer{
		Samples: d.Samples, Batches: d.Batches, Loss: float64(d.Loss), Correct: float64(d.Correct), HasAccuracy: d.HasAccuracy,
		Predictions: d.Predictions,
	}
	for name, m := range d.Metrics {
		if answer.Metrics == nil {
			answer.Metrics = map[string]functions.Metric{}
		}
		answer.Metrics[name] = functions.Metric{Sum: float64(m[0]), Weight: float64(m[1])}
	}
	if a.inv.ModelOut != nil && a.outputs[modelOut] == nil {
		return functions.Answer{}, fault.New("python.run", fault.Unavailable, "the worker of function %q gave no model", a.program.title())
	}
	answer.HasOptimizer = d.HasOptimizer && a.inv.OptimizerOut != nil && a.outputs[optimizerOut] != nil
	for name, o := range a.outputs {
		if err := o.Settle(); err != nil {
			return functions.Answer{}, err
		}
		crc, said := d.CRC[name]
		if !said {
			return functions.Answer{}, fault.New("python.run", fault.Unavailable, "the worker of function %q did not say what it wrote as its %s", a.program.title(), name)
		}
		if o.Out != nil {
			o.Out.Attest(crc)
		}
	}
	return answer, nil
}

// done is how a worker says that all went well.
type done struct {
	Samples      int64                `json:"samples"`
	Batches      int                  `json:"batches"`
	Loss         number               `json:"loss"`
	Correct      number               `json:"correct"`
	HasAccuracy  bool                 `json:"has_accuracy"`
	HasOptimizer bool                 `json:"has_optimizer"`
	CRC          map[string]uint32    `json:"crc"` // CRC-32 of what it wrote, by output
	Metrics      map[string][2]number `json:"metrics"`
	Predictions  json.RawMessage      `json:"predictions"`
	Warnings     []string             `json:"warnings"`
}
