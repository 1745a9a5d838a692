package endpoint

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

// attempt runs what a call asks for, with files of its own that are gone when it
// returns.
func (e *Endpoint) attempt(ctx context.Context, call remote.Call, token string, data json.RawMessage, slot int) (results remote.FunctionResults, err error) {
	dir, err := os.MkdirTemp(e.config.Dir, "attempt-")
	if err != nil {
		return results, fault.New("endpoint.attempt", fault.Unavailable, "make a folder for an attempt: %w", err)
	}
	j, err := newJob(call, token, dir, e.config.TLS)
	if err != nil {
		_ = os.RemoveAll(dir)
		return results, err
	}
	defer func() {
		j.close()
		_ = os.RemoveAll(dir)
	}()
	a, err := j.assignment(ctx)
	if err != nil {
		return results, err
	}
	inv, err := e.invocation(ctx, j, a)
	if err != nil {
		return results, err
	}
	inv.Infer, inv.Slot = data, slot
	model, state := &output{path: j.path("model-out")}, &output{path: j.path("optimizer-out")}
	defer model.close()
	defer state.close()
	if a.WantModel {
		inv.ModelOut = model
	}
	if a.WantOptimizer {
		inv.OptimizerOut = state
	}
	did, err := e.config.Runtime.Run(ctx, inv)
	if err != nil {
		return results, err
	}
	if a.WantOptimizer && did.HasOptimizer {
		if err := j.put(ctx, "optimizer", state); err != nil {
			return results, err
		}
	}
	if a.WantModel {
		if err := j.put(ctx, "model", model); err != nil {
			return results, err
		}
	}
	return remote.ResultsOf(a.Func, a.Task, did), nil
}

// invocation fetches what an assignment is about.
func (e *Endpoint) invocation(ctx context.Context, j *job, a remote.Assignment) (inv functions.Invocation, err error) {
	if len(a.Env) > 0 && e.jobs == nil {
		return inv, fault.New("endpoint.attempt", fault.Invalid,
			"the job has an environment (--env), which this endpoint takes from no job: leave it out, or start the endpoint with --job-url and where jobs are that it trusts")
	}
	inv = functions.Invocation{
		Task: a.Task, JobID: a.Job, Incarnation: a.Incarnation, Epoch: a.Epoch, Round: a.Round, Index: a.Func, Attempt: a.Attempt, Fresh: a.Fresh,
		N: a.N, K: a.K, BatchSize: a.Batch, LR: a.LR, Seed: a.Seed, Args: a.Args, Env: a.Env, Threads: a.Threads, ModelVersion: a.ModelVersion,
	}
	if e.config.Threads > 0 {
		inv.Threads = e.config.Threads
	}
	if inv.Function, err = e.config.Function(a.Env); err != nil {
		return inv, err
	}
	if a.Task != functions.Infer {
		if inv.Data, err = j.rows(ctx, a); err != nil {
			return inv, err
		}
	}
	if a.Task == functions.Train || a.Task == functions.Val {
		inv.Positions = make([]int64, a.Samples)
		for i := range inv.Positions {
			inv.Positions[i] = int64(i)
		}
	}
	if a.HasModel {
		if inv.Model, err = j.fetch(ctx, "model", ""); err != nil {
			return inv, err
		}
	}
	if a.HasOptimizer {
		inv.Optimizer, err = j.fetch(ctx, "optimizer", strconv.Itoa(a.Func))
	}
	return inv, err
}

// rows fetches the data of an assignment.
func (j *job) rows(ctx context.Context, a remote.Assignment) (functions.Data, error) {
	in, err := j.fetch(ctx, "data", strconv.Itoa(a.Func))
	if err != nil {
		return functions.Data{}, err
	}
	data := functions.Data{Name: a.Dataset, Digest: a.DatasetDigest, Samples: a.Samples}
	broken := func(err error) (functions.Data, error) {
		return functions.Data{}, fault.New("endpoint.rows", fault.Corrupt, "the rows of function %d are no npz: %w", a.Func, err)
	}
	archive, err := zip.NewReader(in.R, in.Size)
	if err != nil {
		return broken(err)
	}
	for _, f := range archive.File {
		to := map[string]*functions.Input{"x.npy": &data.X, "y.npy": &data.Y}[f.Name]
		if to == nil || f.Method != zip.Store {
			return broken(errors.New("it holds more than x.npy and y.npy, or packed them"))
		}
		offset, err := f.DataOffset()
		size := int64(f.UncompressedSize64)
		if err != nil || size < 0 || size > in.Size-offset {
			return broken(errors.New("it is shorter than it says"))
		}
		*to = functions.Input{R: io.NewSectionReader(in.R, offset, size), Size: size}
	}
	if data.X.Size == 0 || data.Y.Size == 0 {
		return broken(errors.New("x.npy or y.npy is missing"))
	}
	return data, nil
}
