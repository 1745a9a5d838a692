package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/model"
)

// node is the company of this process as the API wants it.
type node struct {
	*actors.Company
	address string
}

var _ api.Company = (*node)(nil)

// StopJob implements api.Jobs: the stop survives this process.
func (n *node) StopJob(ctx context.Context, id, reason string) error {
	return n.StopStoredJob(ctx, id, reason)
}

// Events implements api.Jobs.
func (n *node) Events(ctx context.Context, job, after string, on func(api.Event) error) error {
	seen := func(s actors.Seen) error {
		return on(api.Event{Cursor: s.Cursor, Event: s.Event, Reset: s.Event == nil})
	}
	if job == "" {
		return n.AllEvents(ctx, after, seen)
	}
	return n.JobEvents(ctx, job, after, seen)
}

// Cluster implements api.Company.
func (n *node) Cluster(ctx context.Context) ([]api.Node, error) {
	reply, err := n.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []api.Node{}
	for _, h := range reply.GetHosts() {
		nodes = append(nodes, api.Node{
			Name: h.GetNode(), Address: n.address, Slots: h.GetSlots(), Busy: h.GetBusy(), Leader: true, Version: thisBuild().Version,
		})
	}
	return nodes, nil
}

// Ready implements api.Company.
func (n *node) Ready() error {
	select {
	case <-n.Done():
		return fault.New("node.ready", fault.Unavailable, "the node has ended: %w", errors.Join(n.Err(), errors.New("it stops")))
	default:
		return nil
	}
}

// Functions implements api.Catalogs.
func (n *node) Functions(ctx context.Context) ([]api.Function, error) {
	infos, err := n.Company.Functions().List(ctx)
	if err != nil {
		return nil, err
	}
	functions := []api.Function{}
	for _, name := range n.NativeFunctions() {
		functions = append(functions, api.Function{Name: name, Runtime: "native"})
	}
	for _, info := range infos {
		functions = append(functions, stored(info))
	}
	return functions, nil
}

func stored(i function.Info) api.Function {
	return api.Function{Name: i.Name, Runtime: i.Runtime, Version: i.Version, Bytes: i.Bytes}
}

// Function implements api.Catalogs.
func (n *node) Function(ctx context.Context, name string) (api.Function, error) {
	if n.isNative(name) {
		return api.Function{Name: name, Runtime: "native"}, nil
	}
	info, err := n.Company.Functions().Show(ctx, name)
	return stored(info), err
}

func (n *node) isNative(name string) bool {
	for _, native := range n.NativeFunctions() {
		if native == name {
			return true
		}
	}
	return false
}

// CreateFunction implements api.Catalogs.
func (n *node) CreateFunction(ctx context.Context, name, path string, replace bool) (api.Function, error) {
	if n.isNative(name) {
		return api.Function{}, fault.New("node.function", fault.Conflict, "the function %q is built in: choose another name", name)
	}
	if !replace {
		_, err := n.Company.Functions().Show(ctx, name)
		if err == nil {
			return api.Function{}, fault.New("node.function", fault.Conflict, "the function %q is there: update it, or choose another name", name)
		}
		if fault.KindOf(err) != fault.NotFound {
			return api.Function{}, err
		}
	}
	info, err := n.Company.Functions().ImportAs(ctx, name, path)
	return stored(info), err
}

// DeleteFunction implements api.Catalogs.
func (n *node) DeleteFunction(ctx context.Context, name string) error {
	if n.isNative(name) {
		return fault.New("node.function", fault.Conflict, "the function %q is built in: it cannot be deleted", name)
	}
	if err := n.unused("function", name, func(t *messages.TrainTask) string { return t.GetFunctionName() }); err != nil {
		return err
	}
	return n.Company.Functions().Delete(ctx, name)
}

// unused returns Conflict while a job that has not ended names something.
func (n *node) unused(what, name string, of func(*messages.TrainTask) string) error {
	jobs, err := n.RunningJobs(context.Background())
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if of(j.GetTask()) == name {
			return fault.New("node.delete", fault.Conflict, "the %s %q is in use by job %s: stop that first, or wait until it has ended", what, name, j.GetId())
		}
	}
	return nil
}

// Datasets implements api.Catalogs.
func (n *node) Datasets(ctx context.Context) ([]api.Dataset, error) {
	infos, err := n.Company.Datasets().List(ctx)
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
	return api.Dataset{Name: i.Name, TrainSetSize: i.Train, TestSetSize: i.Test, Digest: i.Digest, BuiltIn: i.Name == dataset.Digits}
}

// Dataset implements api.Catalogs.
func (n *node) Dataset(ctx context.Context, name string) (api.Dataset, error) {
	if name != dataset.Digits {
		if err := dataset.CheckName(name); err != nil {
			return api.Dataset{}, fault.New("node.dataset", fault.NotFound, "no data set %q: %w", name, err)
		}
	}
	info, err := n.Company.Datasets().Open(ctx, name, dataset.Options{})
	return data(info), err
}

// CreateDataset implements api.Catalogs.
func (n *node) CreateDataset(ctx context.Context, name, path string, how dataset.Options) (api.Dataset, error) {
	info, err := n.Company.Datasets().ImportAs(ctx, name, path, how)
	return data(info), err
}

// DeleteDataset implements api.Catalogs.
func (n *node) DeleteDataset(ctx context.Context, name string) error {
	if err := n.unused("data set", name, func(t *messages.TrainTask) string { return t.GetDatasetName() }); err != nil {
		return err
	}
	return n.Company.Datasets().Delete(ctx, name)
}

// Models implements api.Catalogs.
func (n *node) Models(ctx context.Context) ([]api.Model, error) {
	stored, err := n.Company.Models().List(ctx)
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
		ID: m.ID, Function: m.Function, Dataset: m.Dataset, Epochs: m.Epochs, Accuracy: m.Accuracy,
		ValidationLoss: m.ValidationLoss, Bytes: m.Bytes, Created: m.Created.UTC().Format(time.RFC3339),
	}
}

// OpenModel implements api.Catalogs.
func (n *node) OpenModel(ctx context.Context, id string) (io.ReadCloser, int64, error) {
	m, err := n.Company.Models().Open(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	r, err := n.Company.Models().Read(ctx, m)
	return r, m.Bytes, err
}

// DeleteModel implements api.Catalogs.
func (n *node) DeleteModel(ctx context.Context, id string) error {
	jobs, err := n.RunningJobs(ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.GetTask().GetOptions().GetInit() == id && j.GetEpoch() == 0 {
			return fault.New("node.model", fault.Conflict, "job %s starts from model %s: stop it first, or wait", j.GetId(), id)
		}
	}
	return n.Company.Models().Delete(ctx, id)
}
