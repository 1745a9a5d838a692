package actors

import (
	"context"
	"encoding/json"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
)

// Infer has the function that trained a model answer data, a JSON value as the
// function takes it, and returns its predictions as JSON. NotFound (the model,
// or its function), Invalid (the data), UserCode, Unavailable. A program runs
// without the environment that it was trained with: cards do not keep secrets.
func (c *Company) Infer(ctx context.Context, id string, data json.RawMessage) (json.RawMessage, error) {
	m, err := c.models.catalog.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	blob, err := c.models.open(ctx, m)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	if m.FunctionVersion != "" {
		if err := c.ready(ctx, m.Function, m.FunctionVersion, nil); err != nil {
			return nil, err
		}
	}
	key := host.FunctionKey(m.Function, m.FunctionVersion, nil)
	answer, err := c.runtime(key).Run(ctx, functions.Invocation{
		Task: functions.Infer, Function: key, JobID: id, N: 1, BatchSize: 1, Args: m.Args,
		Model: functions.Input{R: blob, Size: blob.Size(), Path: blob.Path()}, Infer: data,
	})
	return answer.Predictions, err
}

// runtime returns the runtime that has a function, or one that says it has not.
func (c *Company) runtime(key string) functions.Runtime {
	switch {
	case c.programs.Has(key):
		return c.programs
	case c.remotes.Has(key):
		return c.remotes
	}
	return c.natives
}
