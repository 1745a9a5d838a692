package host

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// keep takes in the state of a job, for its next incarnation, unless what is
// kept is newer.
func (e *estate) keep(st *messages.JobState) {
	id := st.GetJob().GetId()
	if old := e.kept[id]; old != nil && (st.GetJob().GetIncarnation() < old.GetJob().GetIncarnation() ||
		st.GetJob().GetIncarnation() == old.GetJob().GetIncarnation() && st.GetModelVersion() < old.GetModelVersion()) {
		return
	}
	e.kept[id] = st
}

// forget drops the state of a job that has ended.
func (e *estate) forget(m *messages.ReleaseTensors) {
	ref := m.GetStep().GetJob()
	if m.GetEverything() && e.kept[ref.GetId()].GetJob().GetIncarnation() <= ref.GetIncarnation() {
		delete(e.kept, ref.GetId())
	}
}

// onKeepState keeps a job's state, unless the job has ended here.
func (h *host) onKeepState(m *messages.KeepState) {
	ref := m.GetState().GetJob()
	if j := h.state.jobs[ref.GetId()]; j == nil || !j.over || j.step.GetJob().GetIncarnation() < ref.GetIncarnation() {
		h.estate.keep(m.GetState())
	}
}

// onAskState tells a job's new incarnation what is here of it. Nothing of an earlier
// one may run any more.
func (h *host) onAskState(ctx actor.Context, m *messages.AskState) {
	h.state.hear(&messages.AttemptRef{Job: m.GetJob()})
	id := m.GetJob().GetId()
	ctx.Respond(&messages.AskStateReply{
		Node: h.deps.Node, Job: m.GetJob(), State: h.estate.kept[id], Holds: len(h.deps.Tensors.List(id+"/")) > 0,
	})
}
