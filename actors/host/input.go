package host

import (
	"context"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// invocation is the attempt as a runtime sees it, all inputs open, without
// outputs. Rounds and attempts count from 0 there.
func (x *execution) invocation(ctx context.Context) (functions.Invocation, error) {
	ref, plan := x.inv.GetAttempt(), x.inv.GetPlan()
	call := functions.Invocation{
		Function: functionOf(plan), JobID: ref.GetJob().GetId(), Incarnation: ref.GetJob().GetIncarnation(),
		Epoch: int(ref.GetEpoch()), Round: max(int(ref.GetRound())-1, 0), Index: int(ref.GetFunction()),
		Attempt: max(int(ref.GetAttempt())-1, 0), Fresh: x.inv.GetFresh(), N: int(plan.GetParallelism()), Slot: x.slot, Threads: x.executor.Threads,
		K: int(plan.GetK()), BatchSize: int(plan.GetBatchSize()), LR: plan.GetLr(), Seed: x.inv.GetSeed(), Args: plan.GetArgs(), Env: plan.GetEnv(),
		ModelVersion: plan.GetModelVersion(), Began: x.began, Timeout: timeLimit(x.inv), Sabotage: Chaos(x.inv),
	}
	var err error
	if call.Task, err = taskOf(ref.GetTask()); err != nil {
		return call, err
	}
	if x.split, err = x.executor.splits.get(ctx, x.executor.Datasets, plan, call.Task); err != nil {
		return call, err
	}
	call.Data = x.split.input()
	if call.Task == functions.Init {
		return call, nil
	}
	if call.Positions, err = x.executor.positions(x.inv, call.Data.Samples); err != nil {
		return call, err
	}
	if call.Model, err = x.tensors(ctx, "host.model", plan.GetModel()); err != nil {
		return call, err
	}
	if x.inv.GetOptimizer() != nil {
		if call.Optimizer, err = x.tensors(ctx, "host.optimizer", x.inv.GetOptimizer()); err != nil {
			return call, err
		}
	}
	if x.inv.GetResidual() != nil { // of the function's state, too
		x.residual, err = x.tensors(ctx, "host.optimizer", x.inv.GetResidual())
	}
	return call, err
}

// timeLimit is how long an attempt may take; 0: as long as it does.
func timeLimit(inv *messages.Invoke) time.Duration {
	return time.Duration(inv.GetPlan().GetTimeoutMs()) * time.Millisecond
}

// taskOf returns what a runtime calls a task.
func taskOf(task messages.Task) (functions.Task, error) {
	switch task {
	case messages.Task_TASK_INIT:
		return functions.Init, nil
	case messages.Task_TASK_TRAIN:
		return functions.Train, nil
	case messages.Task_TASK_VALIDATE:
		return functions.Val, nil
	}
	return "", fault.New("host.execute", fault.Invalid, "a host does not run tasks of kind %v", task)
}

// tensors opens a state dict of the tensor plane. One that is not where it was is
// not the fault of who asks: Unavailable, with op, by which the job knows what it
// is that cannot be had.
func (x *execution) tensors(ctx context.Context, op string, ref *messages.TensorRef) (functions.Input, error) {
	if ref == nil {
		return functions.Input{}, fault.New("host.execute", fault.Invalid, "the invocation names no model")
	}
	blob, err := x.executor.Space.Open(ctx, wire.PlaneRef(ref))
	switch kind := fault.KindOf(err); {
	case kind == fault.NotFound:
		return functions.Input{}, fault.New(op, fault.Unavailable, "%w", err)
	case err != nil:
		return functions.Input{}, fault.New(op, kind, "%w", err)
	}
	x.open = append(x.open, blob)
	return functions.Input{R: blob, Size: blob.Size(), Path: blob.Path()}, nil
}

// close closes the inputs. They were only read, so its errors mean nothing.
func (x *execution) close() {
	if x.split != nil {
		x.executor.splits.release(x.split)
	}
	for _, c := range x.open {
		_ = c.Close()
	}
}
