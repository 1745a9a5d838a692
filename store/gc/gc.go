package gc

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// Grace is for how long nothing is garbage that may still be in the making.
const Grace = 24 * time.Hour

// Deps is what a collection works on. All are required.
type Deps struct {
	Store store.Store
	Jobs  *job.Catalog // of that store: the only one of this process
	Owner job.Owner    // who claims the jobs whose tensors go
	Read  Reader
}

// Reader understands the documents of jobs, which the store does not.
type Reader struct {
	// Uses says what a task needs.
	Uses func(task json.RawMessage) (Uses, error)
	// Ended reports whether a state is that of a job that has ended.
	Ended func(state json.RawMessage) (bool, error)
}

// Uses names a version of a function and of a data set; empty: none of the
// store.
type Uses struct{ Function, Dataset string }

// Options say what is old.
type Options struct {
	Now   time.Time     // by the clock of who collects: compared with the storage's
	Older time.Duration // age from which unused versions, ended jobs and keys of submissions go; at least 0
}

// Reason says why an object is garbage, for people.
type Reason string

// The reasons.
const (
	HalfDeleted Reason = "of a job that is half deleted"
	Ended       Reason = "tensors of a job that has ended"
	Lower       Reason = "left by a lower incarnation"
	Function    Reason = "of an unused version of a function"
	Dataset     Reason = "of an unused version of a data set"
	Unfinished  Reason = "of an import that did not end"
	Submission  Reason = "submission of a job that is gone"
	Probe       Reason = "left by a check of the store"
)

// Item is an object that is garbage.
type Item struct {
	Key    string
	Bytes  int64
	Reason Reason

	group   string // what is checked once more before it goes: a job's id, a folder
	modTime time.Time
}

// Report is what is garbage, or what was removed.
type Report struct {
	Items    []Item
	Bytes    int64    // of all
	Warnings []string // what could not be read and so keeps things, for people
}

// Find lists what is garbage, and removes nothing. Invalid: the options; and
// the store's errors.
func Find(ctx context.Context, deps Deps, opts Options) (Report, error) {
	const op = "gc.find"
	if opts.Older < 0 || opts.Now.IsZero() {
		return Report{}, fault.New(op, fault.Invalid, "garbage older than %v at %v: want an age of at least 0, and a time", opts.Older, opts.Now)
	}
	f := &finder{deps: deps, opts: opts, used: map[string]bool{}, alive: map[string]bool{}}
	for _, step := range []func(context.Context) error{f.jobs, f.models, f.functions, f.datasets, f.submissions, f.probes} {
		if err := step(ctx); err != nil {
			return Report{}, fault.New(op, fault.KindOf(err), "find garbage: %w", err)
		}
	}
	return f.report, nil
}

// finder looks through a store.
type finder struct {
	deps   Deps
	opts   Options
	report Report

	alive  map[string]bool // jobs with a task
	used   map[string]bool // versions and digests that tasks and models name
	unsure bool            // there are some more, which cannot be read
}

// add makes objects garbage, in the order in which they have to go.
func (f *finder) add(why Reason, group string, objects ...store.Object) {
	for _, o := range objects {
		f.report.Items = append(f.report.Items, Item{Key: o.Key, Bytes: o.Size, Reason: why, group: group, modTime: o.ModTime})
		f.report.Bytes += o.Size
	}
}

// isOlder reports whether all of the objects are of that age at least.
func (f *finder) isOlder(age time.Duration, objects ...store.Object) bool {
	for _, o := range objects {
		if f.opts.Now.Sub(o.ModTime) < age {
			return false
		}
	}
	return true
}

// warn says once more why something is kept.
func (f *finder) warn(err error) { f.report.Warnings = append(f.report.Warnings, err.Error()) }

// list returns the objects under a prefix, in the order of their keys.
func (f *finder) list(ctx context.Context, prefix string) ([]store.Object, error) {
	var objects []store.Object
	for o, err := range f.deps.Store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
