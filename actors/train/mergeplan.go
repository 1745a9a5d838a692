package train

import (
	"context"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// measured is how large sums of answers are.
type measured struct {
	step  *step
	sizes sizes
}

// measure finds that out, off the actor: from the model, and from the state that
// was merged last, of which there may be none yet. What cannot be read is not known.
func (j *job) measure() {
	ctx, space, step := j.work, j.deps.Space, j.state.merging
	model, optimizer := j.state.model, j.state.shared
	j.deps.Rim.Go(j.self, func() any {
		return &measured{step, sizes{sumBytes(ctx, space, model), sumBytes(ctx, space, optimizer)}}
	})
}

func sumBytes(ctx context.Context, space plane.Space, like *messages.TensorRef) uint64 {
	if like == nil {
		return 0
	}
	blob, err := space.Open(ctx, wire.PlaneRef(like))
	if err != nil {
		return 0
	}
	defer blob.Close()
	bytes, err := tensor.SumBytes(tensor.Source{R: blob, Size: blob.Size()})
	if err != nil {
		return 0
	}
	return uint64(bytes)
}

func (j *job) onMeasured(ctx actor.Context, m *measured) {
	if j.ended != nil || j.state.merging != m.step {
		return
	}
	j.state.wide = m.sizes
	j.haveSums(ctx)
}

// haveSums has hosts add up what lies with them, and then all of it merged.
func (j *job) haveSums(ctx actor.Context) {
	if !j.state.planSums(j.deps.Rim.Now()) {
		j.combine()
		return
	}
	j.tellPlans(ctx)
}

// tellPlans sends the plans that are not done yet.
func (j *job) tellPlans(ctx actor.Context) {
	if j.state.sums == nil {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(j.state.sums.asked)) { // a simulation replays
		actorkit.Request(ctx, j.deps.Host(node), j.state.sums.asked[node].plan)
	}
}

func (j *job) onMergePlanReply(m *messages.MergePlanReply) {
	if j.ended == nil && j.state.summed(m, j.deps.Rim.Now()) {
		j.combine()
	}
}

// urge repeats plans, and goes on without hosts that do not answer them.
func (j *job) urge(ctx actor.Context) {
	if j.state.tired(j.deps.Rim.Now()) {
		j.combine()
		return
	}
	j.tellPlans(ctx)
}

// withoutSums merges the answers themselves, if the merge that failed was of sums,
// and reports whether it does. Whatever is wrong with a sum, no attempt is to blame.
func (j *job) withoutSums(err error) bool {
	s := j.state.sums
	if s == nil || s.raw || len(s.have) == 0 {
		return false
	}
	j.log.Warn("sums cannot be merged, taking the answers", zap.Error(err))
	s.raw = true
	j.combine()
	return true
}
