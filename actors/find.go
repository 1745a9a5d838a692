package actors

import (
	"context"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// findFunction finds the function of a task, and has a program ready to run:
// what is wrong with it shows before there is a job.
func (c *Company) findFunction(ctx context.Context, t *messages.TrainTask) error {
	name, env := t.GetFunctionName(), t.GetOptions().GetEnv()
	if c.native.Has(name) && len(env) > 0 {
		return fault.New("actors.start", fault.Invalid, "env: %q is a Go function and has no process of its own: leave --env out", name)
	}
	if c.native.Has(name) {
		return c.native.CheckArgs(name, t.GetOptions().GetArgs())
	}
	found, err := c.programs.find(ctx, name)
	if fault.KindOf(err) == fault.NotFound && !isPath(name) {
		return fault.New("actors.start", fault.NotFound, "there is no function %q; there are %s, those in the store, any program.py, and any folder with main.py, such as ./%s",
			name, strings.Join(c.native.Names(), ", "), name)
	}
	if err != nil {
		return err
	}
	t.FunctionName, t.FunctionVersion = found.Name, found.Version
	return c.ready(ctx, found.Name, found.Version, env)
}

// findDataset finds the data of a task, importing a file.
func (c *Company) findDataset(ctx context.Context, t *messages.TrainTask) (warnings []string, err error) {
	info, err := c.datasets.Open(ctx, t.GetDataset(), dataset.Options{
		Seed: t.GetOptions().GetSeed(), Label: t.GetDatasetLabel(), TestShare: t.GetDatasetTestShare(),
	})
	if err != nil {
		return nil, err
	}
	t.DatasetName, t.DatasetDigest = info.Name, info.Digest
	t.TrainSamples, t.TestSamples = uint64(info.Train), uint64(info.Test)
	return info.Warnings, task.CheckData(t)
}

// findInit checks that the model to start from, if one is asked for, is there and
// is one, as far as its header and length say: a job would find out only when it
// has a first model of its own.
func (c *Company) findInit(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	blob, err := c.models.Open(ctx, name)
	if err != nil {
		return err
	}
	defer blob.Close()
	if _, err := tensor.ReadLayout(blob, blob.Size()); err != nil {
		return fault.New("actors.start", fault.KindOf(err), "start from %q: %w", name, err)
	}
	return nil
}
