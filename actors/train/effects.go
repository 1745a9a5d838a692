package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// do has an effect.
func (j *job) do(ctx actor.Context, what effect) {
	switch what {
	case adopt:
		j.adopt()
	case merge:
		j.merge(ctx)
	case skip:
		step, before := j.state.merging.ref, j.state.marked
		j.state.skipped(j.deps.Rim.Now())
		j.roundOver(ctx, step, before)
	case save:
		j.save(ctx)
	case restore:
		j.takeUp()
	case giveUp:
		phase := messages.Phase_PHASE_FAILED
		if j.lost {
			phase = messages.Phase_PHASE_TAKEN_OVER
		}
		j.end(ctx, phase, j.state.fatal)
	}
}

func (j *job) adopt() {
	w := &adoptWork{
		ctx: j.work, space: j.deps.Space, open: j.deps.OpenModel, base: j.state.model,
		from: j.state.opts.GetInit(), partial: j.state.opts.GetInitPartial(), key: j.key("model-0"),
	}
	j.produce(w.run, w.key)
}

func (j *job) onAdopted(ctx actor.Context, m *adopted) {
	switch {
	case j.ended != nil:
	case m.err != nil && j.reopen(ctx, m.err):
	case m.err != nil:
		j.retryEffect(adopt, m.err)
	default:
		j.failures = 0
		if first := j.state.model; first.GetNode() != j.deps.Node {
			j.releaseFirst(ctx, m.model) // nobody needs it there any more
		}
		j.state.adopted(m.model)
	}
}

// merge has hosts add up what lies with them, if they may, and then merges.
func (j *job) merge(ctx actor.Context) {
	switch {
	case j.state.sums != nil || !j.state.addsUp():
		j.combine()
	case j.state.knowsSizes():
		j.haveSums(ctx)
	default:
		j.measure()
	}
}

func (j *job) combine() {
	st := j.state
	version := st.version + 1
	w := &mergeWork{
		ctx: j.work, space: j.deps.Space, rim: j.deps.Rim, node: st.node, step: st.merging,
		merge: st.opts.GetMerge(), clip: st.opts.GetClip(), reference: st.model, momentum: st.momentum,
		keys: mergeKeys{
			model:     j.key(fmt.Sprintf("model-%d", version)),
			optimizer: j.key(fmt.Sprintf("model-%d-optimizer", version)),
			momentum:  j.key(fmt.Sprintf("momentum-%d", version)),
		},
		optimizers: st.opts.GetOptimizerState() == "average",
	}
	if st.sums != nil && !st.sums.raw {
		w.sums = st.sums.have
	}
	j.produce(w.run, w.keys.model, w.keys.optimizer, w.keys.momentum)
}

func (j *job) onMerged(ctx actor.Context, m *merged) {
	if j.ended != nil {
		return
	}
	if m.err != nil {
		if !j.withoutSums(m.err) && !j.reopen(ctx, m.err) {
			j.retryEffect(merge, m.err)
		}
		return
	}
	j.failures = 0
	if j.state.crashes() {
		panic(fault.New("train.chaos", fault.Unavailable, "chaos crashed the TrainJob (--chaos crash-job=%v): resume the job, as each start draws anew, or start one with a smaller share", j.state.opts.GetChaos().GetCrashJob()))
	}
	step, before := j.state.merging.ref, j.state.marked
	j.state.merged(m, j.deps.Rim.Now())
	j.roundOver(ctx, step, before)
}

// roundOver lets go of what a round has left, and asks for the next epoch's N
// after the last one.
func (j *job) roundOver(ctx actor.Context, step *messages.AttemptRef, before *messages.JobState) {
	j.unlate()
	j.release(ctx, &messages.ReleaseTensors{Step: step, Keep: j.keep()})
	j.handOn(ctx, before)
	if j.state.sizing {
		j.askForSize(ctx)
	}
}

// handOn hands hosts the point that the job has reached, shows the
// ParameterServer that it gets on, and lets go of what only an earlier one needs.
func (j *job) handOn(ctx actor.Context, earlier *messages.JobState) {
	for _, node := range j.state.hosts() {
		actorkit.Send(ctx, j.deps.Host(node), &messages.KeepState{State: j.state.marked})
	}
	ctx.Send(ctx.Parent(), &messages.KeepState{State: j.state.marked})
	j.free(earlier)
}

// retryEffect tries again what failed in the world, if that can help. A store
// that is away is waited for: neither the result nor the job is lost for it.
func (j *job) retryEffect(what effect, err error) {
	j.failures++
	kind := fault.KindOf(err)
	patient := (what == save || what == restore) && kind == fault.Unavailable
	switch kind {
	case fault.Unavailable, fault.Corrupt, fault.Unknown:
		if j.failures <= effectRetries || patient {
			now := j.deps.Rim.Now()
			if j.failures == 1 || !patient {
				j.saidEffect = actorkit.Sparse{}
			}
			level := j.saidEffect.Level(now)
			j.log.Log(level, "effect failed, trying again", zap.Stringer("op", what), zap.Error(err))
			if what == save {
				j.complain()
			} else if level == zap.WarnLevel {
				j.state.warn(fmt.Sprintf("%v failed and is tried again: %v", what, err))
			}
			j.deps.Rim.SendAfter(retryCap>>max(0, effectRetries-j.failures), j.self, &effectDue{what})
			return
		}
	}
	j.state.fatal = wire.Failure(err)
}

func (j *job) onEffectDue(ctx actor.Context, m *effectDue) {
	if j.ended == nil {
		j.do(ctx, m.what)
	}
}

// keep names the tensors of hosts that must stay: what the job still needs, and
// what is being stored.
func (j *job) keep() []string {
	held := j.held()
	for _, key := range j.state.keep() {
		held[key] = true
	}
	return slices.Sorted(maps.Keys(held))
}

// produce runs work that leaves tensors under keys. Work that is done only
// after the job has ended, or died, leaves none.
func (j *job) produce(work func() any, keys ...string) {
	ctx, space := j.work, j.deps.Space
	j.deps.Rim.Go(j.self, func() any {
		result := work()
		if ctx.Err() != nil {
			_ = space.Remove(keys...) // what stays goes with the process
		}
		return result
	})
}

// remove removes tensors, off the actor.
func (j *job) remove(keys []string) {
	space := j.deps.Space
	j.deps.Rim.Go(j.self, func() any {
		_ = space.Remove(keys...) // what stays goes with the process
		return &tidied{}
	})
}
