package train

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

func (j *job) onResizeJob(ctx actor.Context, m *messages.ResizeJob) {
	reply := &messages.ResizeJobReply{Job: j.state.ref}
	if m.GetJob().GetIncarnation() > j.state.ref.GetIncarnation() {
		reply.Failure = wire.Failure(fault.New("train.resize", fault.NotFound, "incarnation %d is not here", m.GetJob().GetIncarnation()))
	} else {
		before := j.state.size.GetTerm()
		reply.Failure = wire.Failure(j.state.resize(m.GetSize()))
		if j.state.size.GetTerm() > before && j.ended == nil && !j.state.restoring {
			j.announce(&messages.EventEnd{Incarnation: j.state.ref.GetIncarnation(), Seq: j.state.emitted}) // to a Journal that has heard nothing of it
		}
		j.leaveNodes(ctx)
	}
	reply.Seq = j.state.size.GetSeq()
	reply.EffectiveEpoch, reply.EffectiveRound = j.state.nextRound()
	ctx.Respond(reply)
}

// askForSize asks for the N of the next epoch; unanswered for long, N stays.
func (j *job) askForSize(ctx actor.Context) {
	j.requestParallelism(ctx)
	j.deps.Rim.SendAfter(sizeTimeout, ctx.Self(), &sizeDue{epoch: j.state.epoch})
}

func (j *job) requestParallelism(ctx actor.Context) {
	r := j.state.history.record
	actorkit.Request(ctx, j.deps.Scheduler(), &messages.RequestParallelism{
		Job: j.state.ref, Epoch: j.state.epoch, Parallelism: r.GetParallelism(),
		Seconds: j.state.history.trained.Sub(j.state.history.epochStarted).Seconds(), Samples: r.GetSamples(),
	})
}

func (j *job) onRequestParallelismReply(ctx actor.Context, m *messages.RequestParallelismReply) {
	if !j.state.sizing || m.GetEpoch() != j.state.epoch || m.GetJob().GetIncarnation() != j.state.ref.GetIncarnation() {
		return
	}
	j.state.sizing = false
	if err := j.state.resize(m.GetSize()); err != nil {
		j.state.warn("the Scheduler's answer is ignored: " + err.Error())
	}
	j.leaveNodes(ctx)
	if m.GetWarning() != "" {
		j.state.warn(m.GetWarning())
	}
}

func (j *job) onSizeDue(m *sizeDue) {
	if j.state.sizing && m.epoch == j.state.epoch {
		j.state.sizing = false
		j.log.Warn("the scheduler did not answer, the parallelism stays", zap.Uint32("epoch", m.epoch))
	}
}
