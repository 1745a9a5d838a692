package train

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

func (j *job) onStopJob(ctx actor.Context, m *messages.StopJob) {
	var err error
	switch {
	case j.ended.GetResult().GetPhase() == messages.Phase_PHASE_TAKEN_OVER:
		err = wire.Error(j.ended.GetResult().GetFailure())
	case j.ended != nil && j.ended.GetResult().GetPhase() != messages.Phase_PHASE_STOPPED:
		err = fault.New("train.stop", fault.Conflict, "job %s has ended", j.state.ref.GetId())
	case j.ended == nil && j.state.saving && j.failures == 0:
		err = fault.New("train.stop", fault.Conflict, "job %s is trained and stores its result", j.state.ref.GetId())
	case j.ended == nil:
		j.stopReason = m.GetReason()
		j.end(ctx, messages.Phase_PHASE_STOPPED, j.stopped(j.stopReason, true))
	}
	ctx.Respond(&messages.StopJobReply{Failure: wire.Failure(err)})
}

// end closes a job that has not SUCCEEDED: the store gets its last state, and
// then its ParameterServer and the Journal hear of it until they have answered.
func (j *job) end(ctx actor.Context, phase messages.Phase, failure *messages.Failure) {
	j.close(ctx, j.result(phase, failure))
	j.cancelSl = j.deps.Rim.SendAfter(sealLate, j.self, &sealed{errNoAnswer})
	j.seal(ctx)
}

// close stops the functions of a job that has ended.
func (j *job) close(ctx actor.Context, result *messages.JobResult) {
	for _, pid := range ctx.Children() {
		ctx.Stop(pid)
	}
	j.state.abandon()
	j.ended = &messages.JobFinished{Job: j.state.ref, Result: result}
	j.endedAt = j.deps.Rim.Now()
	j.cancelWork()
	j.log.Info("job ended", zap.Stringer("phase", result.GetPhase()), zap.String("error", result.GetFailure().GetText()))
}

// result is how the job ends, but for the URL of its model.
func (j *job) result(phase messages.Phase, failure *messages.Failure) *messages.JobResult {
	r := j.state.history.result(phase, failure, j.state.opts.GetMerge(), j.deps.Rim.Now())
	if phase == messages.Phase_PHASE_SUCCEEDED {
		j.state.choose(r)
	}
	return r
}

// tellEnd says that the job has ended to whoever has not answered yet.
func (j *job) tellEnd(ctx actor.Context) {
	if !j.accepted {
		ctx.Request(ctx.Parent(), j.ended)
	}
	late := j.deps.Rim.Now().Sub(j.endedAt) >= lingerFor
	for node, there := range j.state.nodes {
		is := j.deps.Host(node) != nil
		if late || !is && !there || j.state.lostAll(node) {
			delete(j.state.nodes, node) // gone, and the tensors with it
		} else {
			j.state.nodes[node] = is
		}
	}
	j.releaseAll(ctx)
}

// leave ends the actor. One that has not ended its job dies of a bug, or with
// its node: what it has here is for the next incarnation.
func (j *job) leave() {
	j.left = true
	j.cancelTk()
	j.cancelWork()
	if j.cancelSl != nil {
		j.cancelSl()
	}
}

// onStartJob has a job that has ended wait for no host any more: it begins anew.
// What it has left on hosts goes with what its next incarnation lets go of.
func (j *job) onStartJob() {
	if j.ended != nil {
		clear(j.state.nodes)
	}
}

func (j *job) releaseAll(ctx actor.Context) {
	j.release(ctx, &messages.ReleaseTensors{Step: j.here(), Everything: true})
}

// here names the step that the job is at.
func (j *job) here() *messages.AttemptRef {
	return &messages.AttemptRef{Job: j.state.ref, Epoch: j.state.epoch, Round: j.state.round}
}

// release tells every host that may hold tensors of the job what may go.
func (j *job) release(ctx actor.Context, m *messages.ReleaseTensors) {
	for _, node := range j.state.hosts() {
		actorkit.Request(ctx, j.deps.Host(node), m)
	}
}

func (j *job) onReleased(m *messages.ReleaseTensorsReply) {
	if j.ended != nil && m.GetJob().GetIncarnation() == j.state.ref.GetIncarnation() {
		delete(j.state.nodes, m.GetNode())
	}
}

// tidy removes all that the job has made here.
func (j *job) tidy() {
	space, ref := j.deps.Space, j.state.ref
	j.deps.Rim.Go(j.self, func() any {
		keys := slices.DeleteFunc(space.List(ref.GetId()+"/"), func(key string) bool { return !isMerged(key, ref) })
		_ = space.Remove(keys...) // what stays goes with the process
		return &tidied{}
	})
}
