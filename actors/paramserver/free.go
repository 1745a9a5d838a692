package paramserver

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// freeFor is for how long hosts are told that a job has ended: one that does not hear
// it by then is cut off, and has nothing any more once it is back.
const freeFor = 30 * time.Second

// freeing is an end that hosts are to hear of. Which of them have something of the
// job its last TrainJob knew, which is gone, so each is told.
type freeing struct {
	job   *messages.JobRef
	heard map[string]bool // nodes that have let go
	until time.Time
}

// free has hosts let go of what a job has left that no TrainJob is left to end. One
// that is another's has not ended.
func (s *server) free(ctx actor.Context, j *job) {
	if j.result.GetPhase() == messages.Phase_PHASE_TAKEN_OVER {
		return
	}
	f := &freeing{job: j.ref(), heard: map[string]bool{}, until: s.deps.Rim.Now().Add(freeFor)}
	s.freeing[j.id] = f
	s.tellHosts(ctx, f)
}

func (s *server) freeMore(ctx actor.Context) {
	now := s.deps.Rim.Now()
	maps.DeleteFunc(s.freeing, func(_ string, f *freeing) bool { return !now.Before(f.until) })
	for _, id := range slices.Sorted(maps.Keys(s.freeing)) {
		s.tellHosts(ctx, s.freeing[id])
	}
}

func (s *server) tellHosts(ctx actor.Context, f *freeing) {
	for _, node := range s.deps.Nodes() {
		if !f.heard[node] {
			actorkit.Request(ctx, s.deps.Host(node), &messages.ReleaseTensors{Step: &messages.AttemptRef{Job: f.job}, Everything: true})
		}
	}
}

func (s *server) onReleaseTensorsReply(m *messages.ReleaseTensorsReply) {
	if f := s.freeing[m.GetJob().GetId()]; f != nil && m.GetJob().GetIncarnation() == f.job.GetIncarnation() {
		f.heard[m.GetNode()] = true
	}
}
