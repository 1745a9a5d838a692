package train

import (
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// openAtOnce is how many answers a merge keeps open; the files of a larger
// round are opened anew for each window, so that N is not bounded by the
// number of files that a process may have.
const openAtOnce = 256

// mergeWork is one merge, ready to run off the actor.
type mergeWork struct {
	space      plane.Space
	rim        actorkit.Rim
	step       *step
	key        string // of the new model
	unweighted bool
	optimizers bool // merge those too, under key + "-optimizer"
}

// merged is how a merge ended.
type merged struct {
	step      *step
	model     *messages.TensorRef
	optimizer *messages.TensorRef // nil: not asked for, or the functions have none
	took      time.Duration
	err       error
}

// run merges; it is what Rim.Go gets.
func (w *mergeWork) run() any {
	began := w.rim.Now()
	m := &merged{step: w.step}
	m.model, m.err = w.average(w.key, (*messages.Invoked).GetModel)
	if m.err == nil && w.optimizers {
		m.optimizer, m.err = w.average(w.key+"-optimizer", (*messages.Invoked).GetOptimizer)
		if m.err != nil {
			_ = w.space.Remove(w.key) // the merge as a whole is tried again
		}
	}
	m.took = w.rim.Now().Sub(began)
	return m
}

// average merges one part of the answers, those that have it, into key.
func (w *mergeWork) average(key string, part func(*messages.Invoked) *messages.TensorRef) (*messages.TensorRef, error) {
	var sources []tensor.Answer
	for _, a := range w.step.answers() {
		ref := part(a)
		if ref == nil {
			continue
		}
		blob, err := w.open(wire.PlaneRef(ref))
		if err != nil {
			return nil, fmt.Errorf("open the answer of function %d: %w", a.GetAttempt().GetFunction(), err)
		}
		defer blob.Close()
		answer := tensor.Answer{
			Function: int(a.GetAttempt().GetFunction()), Weight: float64(a.GetSamples()),
			Source: tensor.Source{R: blob, Size: blob.Size()},
		}
		if w.unweighted {
			answer.Weight = 1
		}
		sources = append(sources, answer)
	}
	if len(sources) == 0 {
		return nil, nil
	}
	mean, err := tensor.NewMerge(int(w.step.plan.GetParallelism()), sources)
	if err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	draft, err := w.space.Create(key, mean.Size())
	if err != nil {
		return nil, fmt.Errorf("make room for the merge: %w", err)
	}
	defer draft.Abort()
	if _, err := mean.WriteTo(draft); err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	ref, err := draft.Seal()
	if err != nil {
		return nil, fmt.Errorf("seal the merge: %w", err)
	}
	return wire.TensorRef(ref), nil
}

func (w *mergeWork) open(ref plane.Ref) (plane.Blob, error) {
	blob, err := w.space.Open(ref)
	if err != nil || len(w.step.work) <= openAtOnce {
		return blob, err
	}
	return &reopened{Blob: blob, space: w.space, ref: ref}, blob.Close()
}

// reopened is a blob that is open only while it is read.
type reopened struct {
	plane.Blob // closed; knows its size
	space      plane.Space
	ref        plane.Ref
}

// ReadAt opens, reads and closes.
func (r *reopened) ReadAt(p []byte, off int64) (int, error) {
	blob, err := r.space.Open(r.ref)
	if err != nil {
		return 0, err
	}
	defer blob.Close()
	return blob.ReadAt(p, off)
}

// Close does nothing: nothing is open.
func (*reopened) Close() error { return nil }
