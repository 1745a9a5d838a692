package train

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// mergeWork is one merge, ready to run off the actor.
type mergeWork struct {
	ctx        context.Context
	space      plane.Space
	rim        actorkit.Rim
	node       string // this one
	step       *step
	sums       []sum   // of answers on other nodes, which hosts have made
	merge      string  // the strategy, as options.merge names it
	clip       float64 // 0: none
	reference  *messages.TensorRef
	momentum   *messages.TensorRef // of the outer optimizer; nil: none yet
	keys       mergeKeys
	optimizers bool // merge the functions' optimizer states, too
}

// mergeKeys are where what a merge makes goes.
type mergeKeys struct{ model, optimizer, momentum string }

// merged is how a merge ended.
type merged struct {
	step      *step
	model     *messages.TensorRef
	optimizer *messages.TensorRef // nil: not asked for, or the functions have none
	momentum  *messages.TensorRef // nil: the strategy has none
	took      time.Duration
	err       error
}

// run merges; it is what Rim.Go gets. It makes all or nothing: what a merge that
// fails has made goes, and what it began from stays until the merge is known, the
// old momentum too: so the merge that is tried again is the same one.
func (w *mergeWork) run() any {
	began := w.rim.Now()
	m := &merged{step: w.step}
	if m.err = w.make(m); m.err != nil {
		_ = w.space.Remove(w.keys.model, w.keys.optimizer, w.keys.momentum)
	}
	m.took = w.rim.Now().Sub(began)
	return m
}

func (w *mergeWork) make(m *merged) error {
	strategy, err := tensor.ParseStrategy(w.merge)
	if err != nil {
		return err
	}
	plan := tensor.Plan{Strategy: strategy, Clip: w.clip}
	if plan.Encoding, err = tensor.ParseEncoding(w.step.plan.GetCompress()); err != nil {
		return err
	}
	for _, from := range []struct {
		ref    *messages.TensorRef
		source *tensor.Source
	}{{w.reference, &plan.Reference}, {w.momentum, &plan.Momentum}} {
		if from.ref == nil {
			continue
		}
		blob, err := w.space.Open(w.ctx, wire.PlaneRef(from.ref))
		if err != nil {
			return fmt.Errorf("open what the answers began from: %w", err)
		}
		defer blob.Close()
		*from.source = tensor.Source{R: blob, Size: blob.Size()}
	}
	parts := parts{get: (*messages.Invoked).GetModel, key: w.keys.model, unweighted: strategy.Unweighted}
	if m.model, m.momentum, err = w.combine(plan, parts); err != nil || !w.optimizers {
		return err
	}
	plan = tensor.Plan{Strategy: tensor.Strategy{Unweighted: strategy.Unweighted}} // a state is no model: its mean, whatever the strategy
	parts.get, parts.key, parts.optimizer = (*messages.Invoked).GetOptimizer, w.keys.optimizer, true
	m.optimizer, _, err = w.combine(plan, parts)
	return err
}

// parts is what of the answers is merged, into key: models, or optimizer states.
type parts struct {
	get        func(*messages.Invoked) *messages.TensorRef // nil of an answer without one
	optimizer  bool
	key        string
	unweighted bool
}

// combine merges one part of the answers, those that have it.
func (w *mergeWork) combine(plan tensor.Plan, of parts) (model, momentum *messages.TensorRef, err error) {
	plan.Functions = int(w.step.plan.GetParallelism())
	summands := w.summands(of)
	if len(summands) == 0 {
		return nil, nil, nil
	}
	blobs, err := w.openAll(summands)
	for _, blob := range blobs {
		defer blob.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	for i, s := range summands {
		source := tensor.Source{R: blobs[i], Size: blobs[i].Size()}
		if len(s.answers) == 1 {
			s.answers[0].Source = source
			plan.Answers = append(plan.Answers, s.answers[0])
		} else {
			plan.Sums = append(plan.Sums, tensor.Sum{Answers: s.answers, Source: source})
		}
	}
	merge, err := tensor.NewMerge(plan)
	if err != nil {
		return nil, nil, fmt.Errorf("read the answers: %w", err)
	}
	return w.write(merge, of.key)
}

// write makes the files of a merge: the model, and the momentum if it has one.
func (w *mergeWork) write(merge *tensor.Merge, key string) (model, momentum *messages.TensorRef, err error) {
	draft, err := w.space.Create(key, merge.Size())
	if err != nil {
		return nil, nil, fmt.Errorf("make room for the merge: %w", err)
	}
	defer draft.Abort()
	var second plane.Draft
	if size := merge.MomentumSize(); size > 0 {
		if second, err = w.space.Create(w.keys.momentum, size); err != nil {
			return nil, nil, fmt.Errorf("make room for the momentum: %w", err)
		}
		defer second.Abort()
	}
	if err := merge.Write(draft, second); err != nil {
		return nil, nil, fmt.Errorf("merge: %w", err)
	}
	if second != nil {
		if momentum, err = seal(second); err != nil {
			return nil, nil, err
		}
	}
	model, err = seal(draft)
	return model, momentum, err
}

func seal(draft plane.Draft) (*messages.TensorRef, error) {
	ref, err := draft.Seal()
	if err != nil {
		return nil, fmt.Errorf("seal the merge: %w", err)
	}
	return wire.TensorRef(ref), nil
}
