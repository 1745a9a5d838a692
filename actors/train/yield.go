package train

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// onYieldJob has the job go on elsewhere: its functions stop, and once the store has
// its newest mark, so does the actor. A job that ends does that first, and so does
// one whose result is being stored.
func (j *job) onYieldJob(ctx actor.Context) {
	if j.ended != nil {
		return
	}
	j.log.Info("job is to go on elsewhere")
	j.yielding = true
	for _, pid := range ctx.Children() {
		ctx.Stop(pid)
	}
	j.yield(ctx)
}

// yield stops the actor once nothing is being stored and nothing new is left to be. A
// store that does not take it is not asked again: the job goes on from what it has.
func (j *job) yield(ctx actor.Context) {
	marked := j.state.marked
	switch {
	case j.saver.running != nil || j.storing.running: // when that has ended
	case j.state.restoring || j.lost || marked == nil || marked == j.saver.stored || j.saver.failures > 0:
		ctx.Stop(j.self)
	default:
		j.store()
	}
}

// yields is Receive of a job that is to go on elsewhere.
func (j *job) yields(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *checkpointed:
		j.saver.ended(j.deps.Rim.Now(), m.err)
		j.yield(ctx)
	case *saved:
		if m.err == nil { // it has come to its end
			j.yielding = false
			j.onSaved(ctx, m)
			return
		}
		j.storing.running = false
		j.yield(ctx)
	case *messages.JobEventReply:
		j.outbox.Acknowledge(m)
	case *actor.Stopping:
		j.leave()
	}
}
