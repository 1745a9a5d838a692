package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/model"
)

// backend is where functions, data sets, models and histories are looked after:
// a server, or without one the store of this user.
type backend interface {
	api.Catalogs
	jobStore
	// UpdateFunction replaces a function that is there. NotFound.
	UpdateFunction(ctx context.Context, name string, from api.FunctionSource) (api.Function, error)
	// UploadDataset creates a data set of up to four files.
	UploadDataset(ctx context.Context, name string, parts []client.Part, how dataset.Options) (api.Dataset, error)
	// Job returns a job, ended or not. NotFound.
	Job(ctx context.Context, id string) (*messages.JobView, error)
	// Model returns what is known of a model. NotFound, Invalid, Corrupt.
	Model(ctx context.Context, id string) (api.Model, error)
	// Place says where it is, for people.
	Place() string
	Close()
}

// placeFlags say where something is: on a server or in a store.
type placeFlags struct {
	remoteFlags
	store string
}

func newPlaceFlags(getenv func(string) string) *placeFlags {
	return &placeFlags{store: config.DefaultStore(getenv)}
}

func (f *placeFlags) register(set *pflag.FlagSet) {
	f.remoteFlags.register(set)
	set.Lookup("server").Usage = "URL of the server (default: http://" + config.DefaultAPI().Listen + " if there is one), or none: the store; else $TROUPE_SERVER"
	f.registerStore(set)
}

func (f *placeFlags) registerStore(set *pflag.FlagSet) {
	set.StringVar(&f.store, "store", f.store, "URL of the store to use without a server; else $TROUPE_STORE")
}

// server returns a client for the server that was named, or else for that of
// this machine if there is one and no store was named; else nil.
func (s *session) server(f *placeFlags) (*client.Client, error) {
	typed := f.set.Changed("store")
	switch {
	case typed && f.set.Changed("server") && f.remoteFlags.server != noServer:
		return nil, fault.New("troupe.place", fault.Invalid, "--server and --store say two places: give one of them")
	case typed || f.remoteFlags.server == noServer:
		return nil, nil
	case f.remoteFlags.server != "":
		return s.dial(&f.remoteFlags)
	}
	return s.nearby(), nil
}

// open returns the backend that the flags mean. The caller closes it.
func (s *session) open(ctx context.Context, f *placeFlags) (backend, error) {
	c, err := s.server(f)
	if err != nil {
		return nil, err
	}
	if c != nil {
		return remoteBackend{c}, nil
	}
	return openStore(ctx, f.store)
}

// at runs a request to a backend, which a signal may end.
func (s *session) at(f *placeFlags, do func(ctx context.Context, b backend) error) error {
	return s.brief(func(ctx context.Context) error {
		b, err := s.open(ctx, f)
		if err != nil {
			return err
		}
		defer b.Close()
		return do(ctx, b)
	})
}

// remoteBackend is a server.
type remoteBackend struct{ *client.Client }

var _ backend = remoteBackend{}

// Place implements backend.
func (r remoteBackend) Place() string { return r.Server() }

// Model implements backend.
func (r remoteBackend) Model(ctx context.Context, id string) (api.Model, error) {
	models, err := r.Models(ctx)
	if err != nil {
		return api.Model{}, err
	}
	for _, m := range models {
		if m.ID == id {
			return m, nil
		}
	}
	return api.Model{}, fault.New("troupe.model", fault.NotFound, "no model %.70q at %s", id, r.Server())
}

// storeBackend is the store of this user.
type storeBackend struct {
	*catalogs
	*actors.Archive
	url    string
	bucket store.Store
	native *native.Runtime
}

var _ backend = (*storeBackend)(nil)

// openStore opens the store at url. Invalid, Unavailable.
func openStore(ctx context.Context, url string) (*storeBackend, error) {
	if url == "" {
		return nil, fault.New("troupe.store", fault.Invalid, "there is no store: give --store file:///folder, or set TROUPE_STORE or HOME")
	}
	bucket, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	runtime, err := native.New()
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	archive := actors.NewArchive(bucket)
	return &storeBackend{url: url, bucket: bucket, native: runtime, Archive: archive, catalogs: &catalogs{
		natives: runtime.Names(), functions: function.New(bucket, runtime.Names()...), datasets: dataset.New(bucket), models: model.New(bucket),
		running: func(ctx context.Context) ([]*messages.JobView, error) { return unended(archive.AllJobs(ctx)) },
	}}, nil
}

// unended keeps the jobs that have not ended: some process may run them, or go on
// with them.
func unended(all []*messages.JobView, err error) ([]*messages.JobView, error) {
	var views []*messages.JobView
	for _, v := range all {
		if v.GetResult() == nil {
			views = append(views, v)
		}
	}
	return views, err
}

// Place implements backend.
func (b *storeBackend) Place() string { return b.url }

// Model implements backend.
func (b *storeBackend) Model(ctx context.Context, id string) (api.Model, error) {
	m, err := b.models.Open(ctx, id)
	return trained(m), err
}

// UpdateFunction implements backend.
func (b *storeBackend) UpdateFunction(ctx context.Context, name string, from api.FunctionSource) (api.Function, error) {
	if _, err := b.Function(ctx, name); err != nil {
		return api.Function{}, err
	}
	return b.CreateFunction(ctx, name, from, true)
}

// UploadDataset implements backend.
func (b *storeBackend) UploadDataset(ctx context.Context, name string, parts []client.Part, how dataset.Options) (api.Dataset, error) {
	dir, err := gather(parts)
	if err != nil {
		return api.Dataset{}, err
	}
	defer dir.remove()
	how.Called = dir.called(name)
	return b.CreateDataset(ctx, name, dir.path, how)
}

// Close implements backend.
func (b *storeBackend) Close() {
	_ = b.native.Close()
	_ = b.bucket.Close()
}
