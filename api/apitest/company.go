// Package apitest has a company for tests: jobs that do what the test says, in
// memory.
package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Company is a company whose jobs run as far as the test makes them. It is safe
// for concurrent use.
type Company struct {
	mu        sync.Mutex // guards the rest; changed is its condition
	changed   *sync.Cond
	jobs      []*messages.JobView
	keys      map[string]string
	events    []api.Event
	dropped   map[string]uint64 // by job: events up to this one are gone
	logs      map[string][]line
	functions []api.Function
	datasets  []api.Dataset
	models    map[string][]byte
	calls     []string
	fails     error
}

type line struct {
	function int
	text     string
}

var _ api.Company = (*Company)(nil)

// New returns a company with the built-in function mlp and the data set digits.
func New() *Company {
	c := &Company{
		keys: map[string]string{}, dropped: map[string]uint64{}, logs: map[string][]line{}, models: map[string][]byte{},
		functions: []api.Function{{Name: "mlp", Runtime: "native"}},
		datasets:  []api.Dataset{{Name: "digits", TrainSetSize: 1437, TestSetSize: 360, Digest: "d1", BuiltIn: true}},
	}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Fail makes every call fail from now on, unless err is nil.
func (c *Company) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = err
}

// Calls returns what changed something, in order.
func (c *Company) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

func (c *Company) noteLocked(format string, args ...any) {
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

// Add adds a job as it is.
func (c *Company) Add(v *messages.JobView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, v)
	c.changed.Broadcast()
}

// Update changes a job.
func (c *Company) Update(id string, change func(*messages.JobView)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, err := c.findLocked(id); err == nil {
		change(v)
	}
	c.changed.Broadcast()
}

// Emit adds an event, whose place it fills in. A JobEnded ends the job.
func (c *Company) Emit(id string, e *messages.JobEvent) api.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq := uint64(1)
	for _, old := range c.events {
		if old.Event.GetJob().GetId() == id {
			seq = old.Event.GetSeq() + 1
		}
	}
	e.Job, e.Seq, e.TimeMs = &messages.JobRef{Id: id, Incarnation: 1}, seq, 1_700_000_000_000+int64(seq)
	if v, err := c.findLocked(id); err == nil && e.GetEnded() != nil {
		v.Result, v.Phase = e.GetEnded().GetResult(), e.GetEnded().GetResult().GetPhase()
	}
	added := api.Event{Cursor: fmt.Sprintf("%s:1:%d", id, seq), Event: e}
	c.events = append(c.events, added)
	c.changed.Broadcast()
	return added
}

// Forget drops the events of a job up to one.
func (c *Company) Forget(id string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[id] = seq
}

// Print adds a line to the log of a job.
func (c *Company) Print(id string, function int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs[id] = append(c.logs[id], line{function, text})
	c.changed.Broadcast()
}

// AddModel adds a model, as its bytes.
func (c *Company) AddModel(id string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models[id] = body
}

func (c *Company) findLocked(id string) (*messages.JobView, error) {
	if c.fails != nil {
		return nil, c.fails
	}
	for _, v := range c.jobs {
		if v.GetId() == id {
			return v, nil
		}
	}
	return nil, fault.New("apitest.job", fault.NotFound, "no job %q", id)
}

// SubmitJob implements api.Jobs. The data set "none" is not there; "old" gives a
// warning.
func (c *Company) SubmitJob(_ context.Context, key string, task *messages.TrainTask) (string, []string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return "", nil, c.fails
	}
	if id := c.keys[key]; id != "" && key != "" {
		return id, nil, nil
	}
	if task.GetDataset() == "none" {
		return "", nil, fault.New("apitest.submit", fault.NotFound, "no data set %q", task.GetDataset())
	}
	id := fmt.Sprintf("%026d", len(c.jobs)+1)
	c.keys[key] = id
	c.jobs = append(c.jobs, &messages.JobView{Id: id, Phase: messages.Phase_PHASE_QUEUED, Task: proto.CloneOf(task), Origin: "server", WaitingFor: "a free slot"})
	c.noteLocked("submit %s", id)
	if task.GetDataset() == "old" {
		return id, []string{"old: “é”\nis old"}, nil
	}
	return id, nil, nil
}

// StopJob implements api.Jobs.
func (c *Company) StopJob(_ context.Context, id, reason string) error {
	return c.change(id, false, "stop %s: %s", id, reason)
}

// StopLife implements api.Jobs.
func (c *Company) StopLife(ctx context.Context, id, reason string, life uint64) error {
	v, err := c.Job(ctx, id)
	if err == nil && v.GetLife() != life {
		err = fault.New("apitest.stop", fault.Conflict, "job %q was resumed", id)
	}
	if err != nil {
		return err
	}
	return c.StopJob(ctx, id, reason)
}

// ResumeStoredJob implements api.Jobs.
func (c *Company) ResumeStoredJob(_ context.Context, id string, n uint32) error {
	return c.change(id, true, "resume %s with %d", id, n)
}

// ResizeJob implements api.Jobs.
func (c *Company) ResizeJob(_ context.Context, id string, n uint32) error {
	return c.change(id, false, "resize %s to %d", id, n)
}

// change notes a change to a job, which must have ended or not.
func (c *Company) change(id string, ended bool, format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.findLocked(id)
	if err != nil {
		return err
	}
	if ended != (v.GetResult() != nil) {
		return fault.New("apitest.change", fault.Conflict, "job %s is %v", id, v.GetPhase())
	}
	c.noteLocked(format, args...)
	return nil
}

// RunningJobs implements api.Jobs.
func (c *Company) RunningJobs(context.Context) ([]*messages.JobView, error) {
	return c.list(func(v *messages.JobView) bool { return v.GetResult() == nil })
}

// AllJobs implements api.Jobs.
func (c *Company) AllJobs(context.Context) ([]*messages.JobView, error) {
	return c.list(func(*messages.JobView) bool { return true })
}

func (c *Company) list(wanted func(*messages.JobView) bool) ([]*messages.JobView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var views []*messages.JobView
	for _, v := range c.jobs {
		if wanted(v) {
			views = append(views, proto.CloneOf(v))
		}
	}
	return views, c.fails
}

// Job implements api.Jobs.
func (c *Company) Job(_ context.Context, id string) (*messages.JobView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.findLocked(id)
	return proto.CloneOf(v), err
}

// DeleteJob implements api.Jobs.
func (c *Company) DeleteJob(_ context.Context, id string) error {
	if err := c.change(id, true, "forget %s", id); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = slices.DeleteFunc(c.jobs, func(v *messages.JobView) bool { return v.GetId() == id })
	return nil
}

// Events implements api.Jobs.
func (c *Company) Events(ctx context.Context, job, after string, on func(api.Event) error) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	next := c.startLocked(job, after)
	reset := false
	if id, place, ok := strings.Cut(after, ":"); ok {
		_, seq, _ := strings.Cut(place, ":")
		n, _ := strconv.ParseUint(seq, 10, 64)
		reset = n < c.dropped[id]
	} else {
		reset = job != "" && c.dropped[job] > 0
	}
	if reset {
		c.mu.Unlock()
		if err := on(api.Event{Reset: true, Cursor: after}); err != nil {
			return err
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	for {
		for ; next < len(c.events); next++ {
			e := c.events[next]
			if id := e.Event.GetJob().GetId(); job != "" && id != job || e.Event.GetSeq() <= c.dropped[id] {
				continue
			}
			c.mu.Unlock()
			err := on(e)
			c.mu.Lock()
			if err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if v, err := c.findLocked(job); job != "" && (err != nil || v.GetResult() != nil) {
			return err
		}
		c.changed.Wait()
	}
}

// startLocked is the index of the first event after a cursor.
func (c *Company) startLocked(job, after string) int {
	if after == "" && job == "" {
		return len(c.events)
	}
	return 1 + slices.IndexFunc(c.events, func(e api.Event) bool { return e.Cursor == after })
}

// Log implements api.Jobs.
func (c *Company) Log(ctx context.Context, id string, function int, follow bool, w io.Writer) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for next := 0; ; {
		v, err := c.findLocked(id)
		if err != nil {
			return err
		}
		for ; next < len(c.logs[id]); next++ {
			l := c.logs[id][next]
			if function >= 0 && l.function != function {
				continue
			}
			c.mu.Unlock()
			_, err := fmt.Fprintf(w, "%d| %s\n", l.function, l.text)
			c.mu.Lock()
			if err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !follow || v.GetResult() != nil {
			return nil
		}
		c.changed.Wait()
	}
}

// Stacks implements api.Jobs.
func (c *Company) Stacks(_ context.Context, id string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.findLocked(id)
	return "0| main.py:1\n", err
}

// Infer implements api.Company: each sample is its own prediction.
func (c *Company) Infer(_ context.Context, model string, data json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return nil, c.fails
	}
	if _, ok := c.models[model]; !ok {
		return nil, fault.New("apitest.infer", fault.NotFound, "no model %q", model)
	}
	return data, nil
}

// Cluster implements api.Company.
func (c *Company) Cluster(context.Context) ([]api.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []api.Node{{Name: "local", Slots: 4, Busy: 1, Leader: true, Version: "test", Roles: []string{"leader", "host"}, Labels: map[string]string{"zone": "eu1"}, SharesStore: true, Alive: true, LastSeen: "2026-01-02T03:04:05Z"}}, c.fails
}

// Ready implements api.Company.
func (c *Company) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fails
}

// Functions implements api.Catalogs.
func (c *Company) Functions(context.Context) ([]api.Function, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.functions), c.fails
}

// Function implements api.Catalogs.
func (c *Company) Function(_ context.Context, name string) (api.Function, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return named(c.functions, "function", name, func(f api.Function) string { return f.Name }, c.fails)
}

// CreateFunction implements api.Catalogs. The version is what was imported.
func (c *Company) CreateFunction(_ context.Context, name string, from api.FunctionSource, replace bool) (api.Function, error) {
	f := api.Function{Name: name, Runtime: "remote", Version: strings.Join(from.URLs, " "), URLs: from.URLs}
	if len(from.URLs) == 0 {
		text, size, err := contents(from.Path)
		if err != nil {
			return api.Function{}, err
		}
		f = api.Function{Name: name, Runtime: "python", Version: text, Bytes: size}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return api.Function{}, c.fails
	}
	at := slices.IndexFunc(c.functions, func(f api.Function) bool { return f.Name == name })
	if at >= 0 && (!replace || name == "mlp") {
		return api.Function{}, fault.New("apitest.function", fault.Conflict, "function %q is there", name)
	}
	if at >= 0 {
		c.functions[at] = f
	} else {
		c.functions = append(c.functions, f)
	}
	return f, nil
}

// DeleteFunction implements api.Catalogs.
func (c *Company) DeleteFunction(ctx context.Context, name string) error {
	if _, err := c.Function(ctx, name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "mlp" {
		return fault.New("apitest.function", fault.Conflict, "function %q is built in", name)
	}
	c.functions = slices.DeleteFunc(c.functions, func(f api.Function) bool { return f.Name == name })
	return nil
}

// Datasets implements api.Catalogs.
func (c *Company) Datasets(context.Context) ([]api.Dataset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.datasets), c.fails
}

// Dataset implements api.Catalogs.
func (c *Company) Dataset(_ context.Context, name string) (api.Dataset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return named(c.datasets, "data set", name, func(d api.Dataset) string { return d.Name }, c.fails)
}

// CreateDataset implements api.Catalogs. The digest is what was imported, the
// size of the train set how many bytes those are.
func (c *Company) CreateDataset(_ context.Context, name, path string, how dataset.Options) (api.Dataset, error) {
	text, size, err := contents(path)
	if err != nil {
		return api.Dataset{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return api.Dataset{}, c.fails
	}
	d := api.Dataset{Name: name, TrainSetSize: size, Digest: fmt.Sprint(text, how.Label, how.TestShare)}
	if at := slices.IndexFunc(c.datasets, func(d api.Dataset) bool { return d.Name == name }); at >= 0 {
		if c.datasets[at].Digest != d.Digest {
			return api.Dataset{}, fault.New("apitest.dataset", fault.Conflict, "data set %q is there", name)
		}
		return d, nil
	}
	c.datasets = append(c.datasets, d)
	return d, nil
}

// DeleteDataset implements api.Catalogs.
func (c *Company) DeleteDataset(ctx context.Context, name string) error {
	if _, err := c.Dataset(ctx, name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.datasets = slices.DeleteFunc(c.datasets, func(d api.Dataset) bool { return d.Name == name })
	return nil
}

// Models implements api.Catalogs.
func (c *Company) Models(context.Context) ([]api.Model, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var models []api.Model
	for id, body := range c.models {
		models = append(models, api.Model{ID: id, Function: "mlp", Dataset: "digits", Epochs: 1, Bytes: int64(len(body)), Created: "2026-01-01T00:00:00Z"})
	}
	return models, c.fails
}

// OpenModel implements api.Catalogs.
func (c *Company) OpenModel(_ context.Context, id string) (io.ReadCloser, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, ok := c.models[id]
	if !ok || c.fails != nil {
		return nil, 0, orNotFound(c.fails, "model", id)
	}
	return io.NopCloser(strings.NewReader(string(body))), int64(len(body)), nil
}

// DeleteModel implements api.Catalogs.
func (c *Company) DeleteModel(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.models[id]; !ok || c.fails != nil {
		return orNotFound(c.fails, "model", id)
	}
	delete(c.models, id)
	return nil
}

func named[T any](list []T, what, name string, nameOf func(T) string, fails error) (none T, _ error) {
	for _, one := range list {
		if nameOf(one) == name && fails == nil {
			return one, nil
		}
	}
	return none, orNotFound(fails, what, name)
}

func orNotFound(fails error, what, name string) error {
	if fails != nil {
		return fails
	}
	return fault.New("apitest.find", fault.NotFound, "no %s %q", what, name)
}

// contents says what a file or folder holds: names, with what small files say.
func contents(path string) (text string, size int64, err error) {
	var parts []string
	err = filepath.WalkDir(path, func(at string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := os.ReadFile(at)
		size += int64(len(body))
		name, _ := filepath.Rel(path, at)
		if name == "." {
			name = filepath.Base(at)
		}
		parts = append(parts, fmt.Sprintf("%s=%.20s;", name, body))
		return err
	})
	return strings.Join(parts, ""), size, err
}
