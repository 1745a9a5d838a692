package actors

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/job"
)

// Origins of jobs: a process that ends with its job; a server, whose jobs the next
// one goes on with unasked; and a job that was started over its own HTTP
// interface, which whoever started it starts again.
const (
	originRun        = "run"
	originServer     = "server"
	originStandalone = "job"
)

// Jobs makes a node the owner of jobs in the store. It is safe for concurrent
// use. A store has one of it in a process.
type Jobs struct {
	catalog *job.Catalog
	owner   job.Owner
	origin  string       // of new jobs: run or server
	now     func() int64 // milliseconds since 1970

	// waits has signs of life given for what is owned until it runs, until the
	// returned function is called; nil: none are.
	waits func(beat func(context.Context) error) (stop func())

	mu      sync.Mutex
	claimed map[string]*OwnedJob // by job: owned already, for whoever asks next
}

// OwnedJob is an incarnation of a job that this node owns: a train.Vault.
type OwnedJob struct {
	catalog     *job.Catalog
	claim       *job.Claim
	id          string
	from        *messages.JobState // nil: none
	fromN       uint64             // whose that is
	files       map[string]job.File
	task        *messages.TrainTask
	warning     string
	submittedMs int64  // since 1970
	waits       func() // ends the signs of life that are given while it waits for its TrainJob
}

var _ train.Vault = (*OwnedJob)(nil)

// NewJobs returns what owns jobs for the node that owner names.
func NewJobs(catalog *job.Catalog, owner job.Owner, origin string, now func() int64) *Jobs {
	return &Jobs{catalog: catalog, owner: owner, origin: origin, now: now, claimed: map[string]*OwnedJob{}}
}

// Own makes this node the owner of a job's next incarnation; a job that is not
// in the store yet is put there. It does not wait. Stale is an owner that has
// been seen unchanged for as long as a living one may be silent, see job.Claim.
// Errors: Conflict, with what was seen of the owner; Unavailable; Corrupt, where
// no state of the job is whole.
func (j *Jobs) Own(ctx context.Context, id string, task *messages.TrainTask, stale job.Sighting) (*OwnedJob, job.Sighting, error) {
	owned := j.take(id)
	if owned == nil {
		if err := j.create(ctx, id, task, j.now()); err != nil {
			return nil, job.Sighting{}, err
		}
		var seen job.Sighting
		var err error
		if owned, seen, err = j.claim(ctx, id, stale); err != nil {
			return nil, seen, err
		}
	}
	owned.waits() // from now on its TrainJob gives signs of life
	return owned, job.Sighting{}, nil
}

// take returns what was owned ahead, nil for nothing.
func (j *Jobs) take(id string) *OwnedJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	owned := j.claimed[id]
	delete(j.claimed, id)
	return owned
}

// create puts a job into the store that is not there, submitted at that time.
func (j *Jobs) create(ctx context.Context, id string, task *messages.TrainTask, submittedMs int64) error {
	_, err := j.catalog.Task(ctx, id)
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return j.put(ctx, id, &messages.StoredTask{Origin: j.origin, SubmittedMs: submittedMs, Task: task})
}

func (j *Jobs) put(ctx context.Context, id string, stored *messages.StoredTask) error {
	doc, err := protojson.Marshal(stored)
	if err != nil {
		return fault.New("actors.own", fault.Invalid, "job %s: its task cannot be written: %w", id, err)
	}
	return j.catalog.Create(ctx, id, doc)
}

func (j *Jobs) claim(ctx context.Context, id string, stale job.Sighting) (*OwnedJob, job.Sighting, error) {
	claim, seen, err := j.catalog.Claim(ctx, id, j.owner, stale)
	if err != nil {
		return nil, seen, err
	}
	owned := &OwnedJob{catalog: j.catalog, claim: claim, id: id, files: map[string]job.File{}, waits: func() {}}
	if j.waits != nil {
		owned.waits = j.waits(claim.Beat) // what follows may read for minutes
	}
	stored, err := LoadJob(ctx, j.catalog, id)
	if err == nil {
		owned.warning, err = owned.look(ctx, stored)
	}
	if err != nil {
		owned.Release()
		return nil, job.Sighting{}, err
	}
	if stored.succeeded() {
		_ = claim.Clear(ctx) // what a process that was killed then left
	}
	owned.task, owned.submittedMs = stored.Task, stored.submittedMs
	if stored.State != nil {
		owned.from, owned.fromN = stored.State, stored.incarnation
		for _, f := range stored.files {
			owned.files[f.Name] = f
		}
	}
	return owned, job.Sighting{}, nil
}

// look says what people should know of what a job goes on from; "": nothing.
func (o *OwnedJob) look(ctx context.Context, stored *StoredJob) (string, error) {
	var texts []string
	if damage := o.claim.Follows().Damage; damage != "" {
		texts = append(texts, damage+", so that nobody can say who owned the job; nothing shows that its owner lives, and it goes on here")
	}
	switch st := stored.State; {
	case stored.newer != nil:
		texts = append(texts, fmt.Sprintf("%v; the job goes on from the state before that: epoch %d, after round %d, stored at %s",
			stored.newer, st.GetEpoch(), st.GetRound(), time.UnixMilli(st.GetTimeMs()).UTC().Format(time.DateTime+" MST")))
	case st == nil:
		folder, err := o.catalog.Bereft(ctx, o.id)
		if err != nil {
			return "", err
		}
		if folder != "" {
			texts = append(texts, folder+" has tensors, and neither state.json nor previous.json, which would say how far they are trained: the job begins again")
		} else if o.claim.Follows().Incarnation > 0 {
			texts = append(texts, "the job was begun before, and the store has no state of it: it begins at epoch 1")
		}
	}
	return strings.Join(texts, "; "), nil
}

// keep has the ParameterServer find a job owned ahead.
func (j *Jobs) keep(owned *OwnedJob) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.claimed[owned.id] = owned
}

// release lets go of jobs that were owned ahead and never started.
func (j *Jobs) release() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, owned := range j.claimed {
		owned.Release()
		delete(j.claimed, id)
	}
	return nil
}

// Incarnation is the number that is owned.
func (o *OwnedJob) Incarnation() uint64 { return o.claim.Incarnation() }

// Reached says how far the job had come: more with each merge that is stored.
func (o *OwnedJob) Reached() uint64 { return o.from.GetModelVersion() }

// Ended says how the job has ended, as far as the store knows; nil: it has not.
func (o *OwnedJob) Ended() *messages.JobResult { return o.from.GetResult() }

// Release lets others own the job.
func (o *OwnedJob) Release() {
	o.waits()
	_ = o.claim.Release() // at worst they wait for it to look dead
}

// Warning implements train.Vault.
func (o *OwnedJob) Warning() string { return o.warning }

// From implements train.Vault.
func (o *OwnedJob) From() *messages.JobState {
	if o.from.GetModel() == nil {
		return nil // it ended before its first model, or SUCCEEDED
	}
	return o.from
}

// Open implements train.Vault.
func (o *OwnedJob) Open(ctx context.Context, ref *messages.TensorRef) (io.ReadCloser, error) {
	f, ok := o.files[ref.GetKey()]
	if !ok {
		return nil, fault.New("actors.own", fault.NotFound, "job %s: its state has no file %q", o.id, ref.GetKey())
	}
	return o.catalog.OpenFile(ctx, o.id, o.fromN, f)
}

// Beat implements train.Vault.
func (o *OwnedJob) Beat(ctx context.Context) error { return o.claim.Beat(ctx) }

// Save implements train.Vault.
func (o *OwnedJob) Save(ctx context.Context, st *messages.JobState, open func(context.Context, *messages.TensorRef) (plane.Blob, error)) error {
	return o.save(ctx, st, func(ref *messages.TensorRef, w io.Writer) error {
		blob, err := open(ctx, ref)
		if err != nil {
			return err
		}
		defer blob.Close()
		_, err = io.Copy(w, io.NewSectionReader(blob, 0, blob.Size()))
		return err
	})
}

// save is Save with tensors that write writes.
func (o *OwnedJob) save(ctx context.Context, st *messages.JobState, write func(*messages.TensorRef, io.Writer) error) error {
	st = proto.CloneOf(st)
	var files []job.Source
	for _, t := range train.Tensors(st) {
		ref := t.Ref
		files = append(files, job.Source{Name: t.Name, Bytes: int64(ref.GetBytes()), Write: func(w io.Writer) error { return write(ref, w) }})
		t.Set(&messages.TensorRef{Key: t.Name, Bytes: t.Ref.GetBytes()})
	}
	doc, err := o.doc(st)
	if err != nil {
		return err
	}
	return o.claim.Save(ctx, doc, files)
}

// End implements train.Vault.
func (o *OwnedJob) End(ctx context.Context, st *messages.JobState, result func(context.Context) error) error {
	ctx, err := o.catalog.Pin(ctx)
	if err != nil {
		return err
	}
	if err := result(ctx); err != nil {
		return err
	}
	doc, err := o.doc(st)
	if err != nil {
		return err
	}
	return o.claim.End(ctx, doc)
}

func (o *OwnedJob) doc(st *messages.JobState) ([]byte, error) {
	doc, err := protojson.Marshal(st)
	if err != nil {
		return nil, fault.New("actors.own", fault.Invalid, "job %s: its state cannot be written: %w", o.id, err)
	}
	return doc, nil
}

// StoredJob is a job as the store has it.
type StoredJob struct {
	ID     string
	Origin string // run or server
	Task   *messages.TrainTask
	// Warnings are what people should know of how it was found.
	Warnings []string
	State    *messages.JobState // the newest that is whole; nil: none yet

	submittedMs int64  // since 1970
	incarnation uint64 // that wrote the state
	files       []job.File
	newer       error // what is wrong with newer states; nil: it is the newest
}

// LoadJob reads a job with a state that is whole, tensors included. NotFound;
// Corrupt, where none of its states is; Unavailable.
func LoadJob(ctx context.Context, catalog *job.Catalog, id string) (*StoredJob, error) {
	return readJob(ctx, catalog, id, catalog.Load)
}

// PeekJob is LoadJob without a look at the tensors, for those who only want to
// know how a job is.
func PeekJob(ctx context.Context, catalog *job.Catalog, id string) (*StoredJob, error) {
	return readJob(ctx, catalog, id, catalog.Peek)
}

func readJob(ctx context.Context, catalog *job.Catalog, id string, load func(context.Context, string) (*job.State, error)) (*StoredJob, error) {
	doc, err := catalog.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	asked := &messages.StoredTask{}
	if err := readJSON.Unmarshal(doc, asked); err != nil {
		return nil, fault.New("actors.job", fault.Corrupt, "job %s: its task is damaged: %w", id, err)
	}
	stored := &StoredJob{ID: id, Origin: asked.GetOrigin(), Task: asked.GetTask(), submittedMs: asked.GetSubmittedMs()}
	state, err := load(ctx, id)
	if err != nil || state == nil {
		return stored, err
	}
	stored.State, stored.incarnation, stored.files, stored.newer = &messages.JobState{}, state.Incarnation, state.Files, state.Newer
	if err := readJSON.Unmarshal(state.Doc, stored.State); err != nil {
		stored.State = nil
		return stored, fault.New("actors.job", fault.Corrupt, "job %s: its state is damaged: %w", id, err)
	}
	return stored, nil
}

// readJSON reads what a later version may have written, too.
var readJSON = protojson.UnmarshalOptions{DiscardUnknown: true}
