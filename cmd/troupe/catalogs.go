package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/model"
)

// catalogs are what a store has as the API wants it, and the command line
// without a server.
type catalogs struct {
	natives   []string // names of built-in functions
	functions *function.Catalog
	datasets  *dataset.Catalog
	models    *model.Catalog
	running   func(ctx context.Context) ([]*messages.JobView, error) // what they may be in use by
}

var _ api.Catalogs = (*catalogs)(nil)

// Functions implements api.Catalogs.
func (c *catalogs) Functions(ctx context.Context) ([]api.Function, error) {
	infos, err := c.functions.List(ctx)
	if err != nil {
		return nil, err
	}
	functions := []api.Function{}
	for _, name := range c.natives {
		functions = append(functions, api.Function{Name: name, Runtime: "native"})
	}
	for _, info := range infos {
		functions = append(functions, stored(info))
	}
	return functions, nil
}

func stored(i function.Info) api.Function {
	return api.Function{Name: i.Name, Runtime: i.Runtime, Version: i.Version, Bytes: i.Bytes, URLs: i.URLs}
}

// Function implements api.Catalogs.
func (c *catalogs) Function(ctx context.Context, name string) (api.Function, error) {
	if c.isNative(name) {
		return api.Function{Name: name, Runtime: "native"}, nil
	}
	info, err := c.functions.Show(ctx, name)
	return stored(info), err
}

func (c *catalogs) isNative(name string) bool { return slices.Contains(c.natives, name) }

// CreateFunction implements api.Catalogs.
func (c *catalogs) CreateFunction(ctx context.Context, name string, from api.FunctionSource, replace bool) (api.Function, error) {
	if c.isNative(name) {
		return api.Function{}, fault.New("catalog.function", fault.Conflict, "the function %q is built in: choose another name", name)
	}
	if !replace {
		_, err := c.functions.Show(ctx, name)
		if err == nil {
			return api.Function{}, fault.New("catalog.function", fault.Conflict, "the function %q is there: update it, or choose another name", name)
		}
		if fault.KindOf(err) != fault.NotFound {
			return api.Function{}, err
		}
	}
	if len(from.URLs) > 0 {
		info, err := c.functions.Link(ctx, name, from.URLs)
		return stored(info), err
	}
	info, err := c.functions.ImportAs(ctx, name, function.Source{Path: from.Path, Called: from.Called})
	return stored(info), err
}

// DeleteFunction implements api.Catalogs.
func (c *catalogs) DeleteFunction(ctx context.Context, name string) error {
	if c.isNative(name) {
		return fault.New("catalog.function", fault.Conflict, "the function %q is built in: it cannot be deleted", name)
	}
	if err := c.unused("function", name, func(t *messages.TrainTask) string { return t.GetFunctionName() }); err != nil {
		return err
	}
	return c.functions.Delete(ctx, name)
}

// unused returns Conflict while a job that has not ended names something.
func (c *catalogs) unused(what, name string, of func(*messages.TrainTask) string) error {
	jobs, err := c.running(context.Background())
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if of(j.GetTask()) == name {
			return fault.New("catalog.delete", fault.Conflict, "the %s %q is in use by job %s: stop or delete that first, or wait until it has ended", what, name, j.GetId())
		}
	}
	return nil
}

// Datasets implements api.Catalogs.
func (c *catalogs) Datasets(ctx context.Context) ([]api.Dataset, error) {
	infos, err := c.datasets.List(ctx)
	if err != nil {
		return nil, err
	}
	datasets := []api.Dataset{}
	for _, info := range infos {
		datasets = append(datasets, data(info))
	}
	return datasets, nil
}

func data(i dataset.Info) api.Dataset {
	return api.Dataset{Name: i.Name, TrainSetSize: i.Train, TestSetSize: i.Test, Digest: i.Digest, Warnings: i.Warnings, BuiltIn: i.Name == dataset.Digits}
}

// Dataset implements api.Catalogs.
func (c *catalogs) Dataset(ctx context.Context, name string) (api.Dataset, error) {
	if name != dataset.Digits {
		if err := dataset.CheckName(name); err != nil {
			return api.Dataset{}, fault.New("catalog.dataset", fault.NotFound, "no data set %q: %w", name, err)
		}
	}
	info, err := c.datasets.Open(ctx, name, dataset.Options{})
	if fault.KindOf(err) == fault.NotFound {
		return api.Dataset{}, fault.New("catalog.dataset", fault.NotFound, "no data set %q: troupe dataset list shows what there is", name)
	}
	return data(info), err
}

// CreateDataset implements api.Catalogs.
func (c *catalogs) CreateDataset(ctx context.Context, name, path string, how dataset.Options) (api.Dataset, error) {
	info, err := c.datasets.Create(ctx, name, path, how)
	return data(info), err
}

// DeleteDataset implements api.Catalogs.
func (c *catalogs) DeleteDataset(ctx context.Context, name string) error {
	if err := c.unused("data set", name, func(t *messages.TrainTask) string { return t.GetDatasetName() }); err != nil {
		return err
	}
	return c.datasets.Delete(ctx, name)
}

// Models implements api.Catalogs.
func (c *catalogs) Models(ctx context.Context) ([]api.Model, error) {
	stored, err := c.models.List(ctx)
	if err != nil {
		return nil, err
	}
	models := []api.Model{}
	for _, m := range stored {
		models = append(models, trained(m))
	}
	return models, nil
}

func trained(m model.Model) api.Model {
	return api.Model{
		ID: m.ID, Function: m.Function, FunctionVersion: m.FunctionVersion, Args: m.Args, Dataset: m.Dataset, DatasetDigest: m.DatasetDigest,
		Epochs: m.Epochs, Accuracy: m.Accuracy, ValidationLoss: m.ValidationLoss, TrainLoss: m.TrainLoss, Parallelism: m.Parallelism,
		Merge: m.Merge, Seed: m.Seed, Bytes: m.Bytes, SHA256: m.SHA256, Created: m.Created.UTC().Format(time.RFC3339), Model: m.URL,
	}
}

// OpenModel implements api.Catalogs.
func (c *catalogs) OpenModel(ctx context.Context, id string) (io.ReadCloser, int64, error) {
	m, err := c.models.Open(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	r, err := c.models.Read(ctx, m)
	return r, m.Bytes, err
}

// DeleteModel implements api.Catalogs.
func (c *catalogs) DeleteModel(ctx context.Context, id string) error {
	jobs, err := c.running(ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.GetTask().GetOptions().GetInit() == id && j.GetEpoch() == 0 {
			return fault.New("catalog.model", fault.Conflict, "job %s starts from model %s: stop it first, or wait", j.GetId(), id)
		}
	}
	return c.models.Delete(ctx, id)
}
