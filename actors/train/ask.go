package train

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// askFor is how long hosts have to say what they have of a job before it goes on.
const askFor = time.Second

// restoreDue: hosts that have not answered are not waited for any more.
type restoreDue struct{}

// restoring is the search for what earlier incarnations left: a state to go on from,
// and tensors that nobody needs any more. An incarnation that died had used nodes
// that no state of it names, so every node is asked.
type restoring struct {
	asked map[string]bool    // nodes; true: has answered. Nil: the incarnation is the first, and asks nobody
	kept  *messages.JobState // the latest that a host has; nil: none yet
	begun bool               // it is being taken up
}

// ask begins an incarnation that is not the job's first: hosts may have a later
// state than the store.
func (j *job) ask(ctx actor.Context) {
	j.state.restoring = true
	j.restoring.asked = map[string]bool{}
	for _, g := range j.state.size.GetGrants() {
		j.restoring.asked[g.GetNode()], j.state.nodes[g.GetNode()] = false, true
	}
	j.askHosts(ctx)
	j.deps.Rim.SendAfter(askFor, j.self, &restoreDue{})
}

// askHosts asks the hosts that have not answered: of nodes that were there before,
// and those that there are now, which may have been out of sight.
func (j *job) askHosts(ctx actor.Context) {
	asked := j.restoring.asked
	if asked == nil {
		return
	}
	for _, node := range j.deps.Nodes() {
		if _, is := asked[node]; !is {
			asked[node] = false
		}
	}
	for _, node := range slices.Sorted(maps.Keys(asked)) {
		if !asked[node] {
			actorkit.Request(ctx, j.deps.Host(node), &messages.AskState{Job: j.state.ref})
		}
	}
}

// onAskStateReply takes in what a host has. One that has tensors of the job is told
// from now on which may go; at once if the job has gone on without its answer, and is
// beyond the first model: what is older than that is an earlier incarnation's.
func (j *job) onAskStateReply(ctx actor.Context, m *messages.AskStateReply) {
	answered, asked := j.restoring.asked[m.GetNode()]
	if !asked || answered || !proto.Equal(m.GetJob(), j.state.ref) {
		return
	}
	j.restoring.asked[m.GetNode()] = true
	if j.ended == nil && m.GetHolds() {
		j.state.nodes[m.GetNode()] = true
		if !j.state.restoring && j.state.epoch > 0 {
			actorkit.Request(ctx, j.deps.Host(m.GetNode()), &messages.ReleaseTensors{Step: &messages.AttemptRef{Job: j.state.ref}, Keep: j.keep()})
		}
	}
	if j.restoring.begun {
		return
	}
	if isLater(m.GetState(), j.restoring.kept) {
		j.restoring.kept = m.GetState()
	}
	if !slices.Contains(slices.Collect(maps.Values(j.restoring.asked)), false) {
		j.takeUp()
	}
}
