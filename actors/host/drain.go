package host

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// onDrainHost has the host say, from now on, that its node is about to go.
func (h *host) onDrainHost(ctx actor.Context) {
	if !h.estate.drain {
		h.estate.drain, h.state.changed = true, true
	}
	for id, st := range h.estate.kept {
		if h.state.jobs[id] == nil { // a former value of the host has heard of it
			h.state.hear(&messages.AttemptRef{Job: st.GetJob()})
		}
	}
	if ctx.Sender() != nil {
		ctx.Respond(&messages.DrainHostReply{Jobs: h.state.tenants()})
	}
}

// vacated takes in that an incarnation of a job needs nothing of this node.
func (s *state) vacated(ref *messages.JobRef) {
	j := s.hear(&messages.AttemptRef{Job: ref})
	j.vacated = max(j.vacated, ref.GetIncarnation())
}

// tenants returns the jobs that may need something of this node, by id.
func (s *state) tenants() (jobs []string) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[id]; !j.over && j.vacated < j.step.GetJob().GetIncarnation() {
			jobs = append(jobs, id)
		}
	}
	return jobs
}
