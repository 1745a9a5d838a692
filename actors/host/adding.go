package host

import (
	"context"
	"fmt"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// adding is the work of an addition, ready to run off the actor.
type adding struct {
	ctx      context.Context
	addition *addition
	space    Tensors
	node     string
}

// added is how it ended.
type added struct {
	addition *addition
	reply    *messages.MergePlanReply
	errs     []error // of sums that could not be made
}

// run makes sum after sum; it is what Rim.Go gets. Whatever happens, the TrainJob
// is to hear that it is over.
func (w *adding) run() any {
	plan := w.addition.plan
	out := &added{addition: w.addition, reply: &messages.MergePlanReply{Step: plan.GetStep(), Seq: plan.GetSeq(), Node: w.node, Done: true}}
	all := func(subtotals []subtotal, part string) []*messages.TensorRef {
		refs := make([]*messages.TensorRef, len(subtotals))
		for i, s := range subtotals {
			ref, err := w.guarded(s, part)
			if err != nil {
				out.errs = append(out.errs, err)
				ref = &messages.TensorRef{}
			}
			refs[i] = ref
		}
		return refs
	}
	out.reply.Models = all(w.addition.models, keyModel)
	out.reply.Optimizers = all(w.addition.optimizer, keyOptimizer)
	if w.ctx.Err() != nil {
		out.errs = nil // nobody wants them
	}
	return out
}

// guarded turns a panic, a bug of ours, into an error.
func (w *adding) guarded(s subtotal, part string) (ref *messages.TensorRef, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New("host.add", fault.Unknown, "adding up answers panicked: %v", p)
		}
	}()
	return w.sum(s, part)
}

// sum adds up the answers of one subtree.
func (w *adding) sum(s subtotal, part string) (*messages.TensorRef, error) {
	if s == nil {
		return nil, fault.New("host.add", fault.NotFound, "not all answers of the plan are known to this life of the host")
	}
	plan := tensor.Plan{Functions: int(w.addition.plan.GetParallelism())}
	if part == keyModel { // states are neither clipped nor encoded
		reference, err := w.reference(&plan)
		if err != nil {
			return nil, err
		}
		defer reference.Close()
	}
	for _, one := range s {
		blob, err := plane.OpenOneOf(w.ctx, w.space, wire.PlaneRef(one.ref), len(s))
		if err != nil {
			return nil, fmt.Errorf("open the answer of function %d: %w", one.function, err)
		}
		defer blob.Close()
		plan.Answers = append(plan.Answers, tensor.Answer{
			Function: int(one.function), Weight: one.weight, Source: tensor.Source{R: blob, Size: blob.Size()},
		})
	}
	sum, err := tensor.NewSum(plan)
	if err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	draft, err := w.space.Create(w.key(s, part), sum.Size())
	if err != nil {
		return nil, fmt.Errorf("make room for a sum: %w", err)
	}
	defer draft.Abort()
	if err := sum.Write(heeding{w.ctx, draft}); err != nil {
		return nil, fmt.Errorf("add up answers: %w", err)
	}
	ref, err := draft.Seal()
	return wire.TensorRef(ref), err
}

// reference adds to a plan what models are clipped and decoded by.
func (w *adding) reference(plan *tensor.Plan) (plane.Blob, error) {
	var err error
	if plan.Encoding, err = tensor.ParseEncoding(w.addition.plan.GetCompress()); err != nil {
		return nil, err
	}
	blob, err := w.space.Open(w.ctx, wire.PlaneRef(w.addition.plan.GetReference()))
	if err != nil {
		return nil, fmt.Errorf("open what the answers began from: %w", err)
	}
	plan.Clip, plan.Reference = w.addition.plan.GetClip(), tensor.Source{R: blob, Size: blob.Size()}
	return blob, nil
}

// key is of the kind that answers have, so that a sum goes with them. The plan's
// number tells apart the sums of two plans.
func (w *adding) key(s subtotal, part string) string {
	ref := w.addition.plan.GetStep()
	first := &messages.AttemptRef{Job: ref.GetJob(), Epoch: ref.GetEpoch(), Round: ref.GetRound(), Function: s[0].function}
	return answerKey(first, w.addition.plan.GetSeq(), keySum+part)
}

// heeding is a writer that ends with a context.
type heeding struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (h heeding) Write(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.w.Write(p)
}
