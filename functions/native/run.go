package native

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// run is one invocation.
type run struct {
	ctx      context.Context
	inv      functions.Invocation
	function Function
	alone    bool // in this process
}

// killed is what sabotage panics with.
type killed struct{}

// guarded does the task and turns a panic into an error.
func (r *run) guarded() (answer functions.Answer, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case killed:
			err = fault.New("native.run", fault.Unavailable, "function %q was killed on purpose", r.function.Name)
		default:
			e := fault.New("native.run", fault.UserCode, "function %q panicked: %v", r.function.Name, p)
			e.Trace = string(debug.Stack())
			err = e
		}
	}()
	return r.do()
}

// classify gives an error of the function its kind. Whatever a function says
// after its context ended, it was cancelled.
func (r *run) classify(err error) error {
	if ended := r.ctx.Err(); ended != nil {
		return cancelled(r.function.Name, ended)
	}
	if fault.KindOf(err) != fault.Unknown {
		return err
	}
	e := fault.New("native.run", fault.UserCode, "function %q failed: %w", r.function.Name, err)
	e.Trace = err.Error()
	return e
}

func (r *run) do() (functions.Answer, error) {
	call, err := r.call()
	if err != nil {
		return functions.Answer{}, err
	}
	switch r.inv.Task {
	case functions.Init:
		return functions.Answer{}, r.init(call)
	case functions.Infer:
		return r.infer(call)
	}
	model, err := r.function.Open(call)
	if err != nil {
		return functions.Answer{}, err
	}
	sizes := functions.Batches(len(r.inv.Positions), r.inv.BatchSize)
	answer := functions.Answer{Samples: int64(len(r.inv.Positions)), Batches: len(sizes)}
	if r.inv.Task == functions.Val {
		return answer, r.validate(call, model, sizes, &answer)
	}
	return answer, r.train(call, model, sizes, &answer)
}

// call is the invocation as the function sees it.
func (r *run) call() (*Call, error) {
	args, err := r.function.parseArgs(r.inv.Args)
	if err != nil {
		return nil, err
	}
	data := r.inv.Data
	if r.inv.Task == functions.Infer {
		if data, err = points(r.inv.Infer); err != nil {
			return nil, err
		}
	}
	rows, err := openRows(data)
	if err != nil {
		return nil, err
	}
	c := &Call{
		Task: r.inv.Task, Epoch: r.inv.Epoch, Round: r.inv.Round, Index: r.inv.Index, N: r.inv.N,
		Threads: r.inv.Threads, BatchSize: r.inv.BatchSize, LR: r.inv.LR, Args: args, Rows: rows,
		Rand:  rand.New(rand.NewPCG(r.inv.Seed, 0x74726f757065)), //nolint:gosec // chance that repeats is the point
		Model: newState("model", false, nil), Optimizer: newState("optimizer state", false, nil),
		ctx: r.ctx,
	}
	if r.inv.Task == functions.Init {
		return c, nil
	}
	if c.Model, err = readState("model", true, r.inv.Model); err != nil {
		return nil, err
	}
	if r.inv.Task == functions.Train {
		c.Optimizer, err = readState("optimizer state", false, r.inv.Optimizer)
	}
	return c, err
}

func (r *run) init(c *Call) error {
	if err := r.strike(0, r.inv.Sabotage.Batch(0)); err != nil {
		return err
	}
	if err := r.function.Init(c); err != nil {
		return err
	}
	if c.Model.Len() == 0 {
		return fault.New("native.init", fault.UserCode, "function %q made a model without tensors", r.function.Name)
	}
	if r.inv.ModelOut == nil {
		return nil
	}
	return c.Model.write(r.inv.ModelOut)
}

func (r *run) train(c *Call, model Model, sizes []int, answer *functions.Answer) error {
	var sum float64
	err := r.each(c, sizes, func(b Batch) error {
		n := float64(b.N)
		loss, err := model.Train(b)
		sum += loss * n
		return err
	})
	if err != nil {
		return err
	}
	answer.Loss = sum / float64(answer.Samples)
	if r.inv.ModelOut != nil {
		if err := c.Model.write(r.inv.ModelOut); err != nil {
			return err
		}
	}
	if r.inv.OptimizerOut != nil && c.Optimizer.Len() > 0 {
		answer.HasOptimizer = true
		return c.Optimizer.write(r.inv.OptimizerOut)
	}
	return nil
}

func (r *run) validate(c *Call, model Model, sizes []int, answer *functions.Answer) error {
	answer.HasAccuracy = !r.function.NoAccuracy
	return r.each(c, sizes, func(b Batch) error {
		score, err := model.Validate(b)
		answer.Loss += score.Loss
		if answer.HasAccuracy {
			answer.Correct += float64(score.Correct)
		}
		return err
	})
}

// each calls do for every batch, with the context checked and sabotage striking
// in between.
func (r *run) each(c *Call, sizes []int, do func(Batch) error) error {
	strikes := r.inv.Sabotage.Batch(len(sizes))
	for b, err := range c.Rows.batches(r.inv.Positions, sizes) {
		if err != nil {
			return err
		}
		if err := r.strike(b.Index, strikes); err != nil {
			return err
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

// strike does what sabotage asks for when its batch has come.
func (r *run) strike(batch, at int) error {
	s := r.inv.Sabotage
	switch {
	case batch != at:
		return nil
	case s.Kill && r.alone:
		_ = unix.Kill(0, unix.SIGKILL) // this process and its group
		panic(killed{})
	case s.Kill:
		panic(killed{})
	case s.Freeze && r.alone:
		_ = unix.Kill(0, unix.SIGSTOP)
		<-r.ctx.Done() // should somebody let it go on
		return r.ctx.Err()
	case s.Hang, s.Freeze:
		<-r.ctx.Done()
		return r.ctx.Err()
	}
	timer := time.NewTimer(s.Slow)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func cancelled(function string, err error) error {
	return fault.New("native.run", fault.Unavailable, "function %q was cancelled: %w", function, err)
}
