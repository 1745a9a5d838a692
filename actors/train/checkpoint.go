package train

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

const (
	beatEvery = 2 * time.Second
	sealFor   = 10 * time.Second // how long the end of a job waits for the store
	sealLate  = 2 * sealFor      // and for one that does not even say that it cannot
	sayDelay  = time.Second      // after which people hear of that
)

var errNoAnswer = fault.New("train.seal", fault.Unavailable, "it does not answer")

type (
	checkpointed struct{ err error }
	beaten       struct{ err error }
	sealed       struct{ err error }
	sealDue      struct{} // it failed and is tried again
)

// checkpoint has the newest mark stored if that is due, beside the rounds.
func (j *job) checkpoint() {
	now := j.deps.Rim.Now()
	if j.state.restoring || j.storing.running || !j.saver.due(now, j.state.marked) {
		return
	}
	j.store()
}

// store has the newest mark stored.
func (j *job) store() {
	j.saver.begin(j.deps.Rim.Now(), j.state.marked)
	ctx, vault, st, open := j.work, j.vault, j.state.marked, j.open
	j.deps.Rim.Go(j.self, func() any { return &checkpointed{vault.Save(ctx, st, open)} })
}

func (j *job) onCheckpointed(ctx actor.Context, m *checkpointed) {
	saved := j.saver.running
	j.saver.ended(j.deps.Rim.Now(), m.err)
	switch {
	case j.ended != nil:
		j.seal(ctx)
		return
	case fault.KindOf(m.err) == fault.Conflict:
		j.superseded(m.err)
	case m.err != nil:
		if j.saver.failures == 1 {
			j.saidSave = actorkit.Sparse{}
		}
		j.log.Log(j.saidSave.Level(j.deps.Rim.Now()), "checkpoint not stored", zap.Error(m.err))
		if u := unreachedOf(m.err); u != nil && j.saver.failures > 1 { // once, its node may have been about to be found gone
			j.leaveOut(u)
		}
	}
	j.free(saved)
	if j.storing.waits && j.state.fatal == nil {
		j.save(ctx)
	}
}

// free removes the job's own tensors that only an earlier mark names.
func (j *job) free(earlier *messages.JobState) {
	before, needed := map[string]bool{}, j.held()
	keysOf(earlier, before)
	keysOf(j.state.marked, needed)
	var gone []string
	for key := range before {
		if !needed[key] && isMerged(key, j.state.ref) {
			gone = append(gone, key)
		}
	}
	if len(gone) > 0 {
		j.remove(gone)
	}
}

// held returns the keys of tensors that are being stored.
func (j *job) held() map[string]bool {
	held := map[string]bool{}
	if j.saver.running != nil {
		keysOf(j.saver.running, held)
	}
	return held
}

// beat has others know that the job is owned, and the job whether it still is.
func (j *job) beat() {
	now := j.deps.Rim.Now()
	if j.beating || now.Sub(j.lastBeat) < beatEvery {
		return
	}
	j.beating, j.lastBeat = true, now
	ctx, vault := j.work, j.vault
	j.deps.Rim.Go(j.self, func() any { return &beaten{vault.Beat(ctx)} })
}

func (j *job) onBeaten(ctx actor.Context, m *beaten) {
	before := j.muted
	j.beating, j.muted = false, m.err != nil
	switch {
	case j.ended != nil:
	case fault.KindOf(m.err) == fault.Conflict:
		j.superseded(m.err)
	case m.err == nil && before:
		j.prompt(ctx)
	}
}

// superseded ends an incarnation that does not own the job any more, which has
// not ended by that. Whatever it has stored lies under its own number, where
// nobody looks.
func (j *job) superseded(why error) {
	j.lost = true
	j.state.fatal = wire.Failure(why)
}

// seal stores the state that a job which has not SUCCEEDED can be taken up from,
// and how it ended, before the world hears of the end. A store that does not take
// it in time goes without.
func (j *job) seal(ctx actor.Context) {
	if j.sealed || j.saver.running != nil || j.storing.running {
		return // when that has ended, which it does soon: its context has
	}
	if j.lost || j.state.restoring { // it has nothing to say that the store does not have
		j.onSealed(ctx, &sealed{})
		return
	}
	st, vault, open := j.lastState(j.ended.GetResult()), j.vault, j.openNow
	j.deps.Rim.Go(j.self, func() any {
		ctx, cancel := context.WithTimeout(context.Background(), sealFor)
		defer cancel()
		return &sealed{vault.Save(ctx, st, open)}
	})
}

func (j *job) onSealed(ctx actor.Context, m *sealed) {
	if j.sealed {
		return
	}
	switch now, u := j.deps.Rim.Now(), unreachedOf(m.err); {
	case u != nil && j.leaveOut(u): // there is no time to wait for it
		j.seal(ctx)
		return
	case fault.KindOf(m.err) == fault.Conflict: // its end is not the job's
		j.ended = &messages.JobFinished{Job: j.state.ref, Result: j.result(messages.Phase_PHASE_TAKEN_OVER, wire.Failure(m.err))}
	case m.err != nil && now.Sub(j.endedAt) < sealFor:
		j.unsealed = m.err
		j.deps.Rim.SendAfter(retrySave, j.self, &sealDue{})
		return
	case m.err != nil:
		j.state.warn(fmt.Sprintf("the store does not take the job's state: %v; the job ends without that, and a resume goes on %s", m.err, j.saver.back(j.state.marked)))
		if r := j.ended.GetResult(); r.GetPhase() == messages.Phase_PHASE_STOPPED {
			r.Failure = j.stopped(j.stopReason, false)
		}
		j.log.Warn("end not stored", zap.Error(m.err))
	}
	j.told(ctx)
}

// delayed tells people, once, why the job has not ended yet that is to.
func (j *job) delayed(now time.Time) {
	waits := now.Sub(j.endedAt)
	if j.saidDelay || waits < sayDelay {
		return
	}
	j.saidDelay = true
	text, left := "the store has not taken its last state yet", sealLate-waits
	if node := j.waitsFor.Load(); node != nil {
		text = fmt.Sprintf("its last state waits for what lies on node %q", *node)
	} else if j.unsealed != nil {
		text, left = fmt.Sprintf("the store does not take its last state: %v", j.unsealed), sealFor-waits
	}
	j.state.warn(fmt.Sprintf("the job is about to end, but %s; it is tried for up to %v more, and then the job ends without that", text, left.Round(time.Second)))
}

// told has the world hear of the end, which the store has as far as it takes it.
func (j *job) told(ctx actor.Context) {
	j.sealed = true
	if j.cancelSl != nil {
		j.cancelSl()
	}
	if j.deps.Shared && j.ended.GetResult().GetPhase() == messages.Phase_PHASE_TAKEN_OVER {
		clear(j.state.nodes) // what hosts have of it is the next incarnation's, and so are its watchers
	} else {
		j.state.emit(actorkit.EndEvent(j.ended.GetResult()))
		for node := range j.restoring.asked { // what was to be heard of there is over
			j.state.nodes[node] = true
		}
	}
	j.tidy()
	j.tellEnd(ctx)
}

// lastState is what the store is to have of an ended job: of one that has
// SUCCEEDED how it went, of every other also where to go on.
func (j *job) lastState(result *messages.JobResult) *messages.JobState {
	last := &messages.JobState{}
	if j.state.marked != nil && result.GetPhase() != messages.Phase_PHASE_SUCCEEDED {
		last = proto.CloneOf(j.state.marked)
	}
	last.Events, last.Before, last.Node = j.state.emitted, j.state.before, j.deps.Node
	last.Job, last.TimeMs, last.Result = j.state.ref, j.deps.Rim.Now().UnixMilli(), result
	return last
}
