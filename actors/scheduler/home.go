package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// strangerFor is for how long an owner of a job that is no node of the cluster is
// waited for, and has to live, before the job counts as its: longer than a node that
// is cut off goes on, and than one that was started again takes to be back.
const strangerFor = 30 * time.Second

// homeOf picks the node whose ParameterServer is to run a job: the one that the task
// names; else where the job has the most slots, then where the fewest jobs are at
// home, then the one that leads, which has the store, then by name. Where no host is
// known it is the one that leads.
func (s *state) homeOf(j *job) string {
	if s.members == nil {
		return s.node
	}
	if node := j.task.GetNode(); node != "" {
		return node
	}
	jobs := map[string]int{}
	for _, other := range s.live {
		if other != j {
			jobs[other.home]++
		}
	}
	var best *host
	for _, h := range s.sortedHosts() {
		if h.present && !h.leaving && (best == nil || cmp.Or(
			cmp.Compare(j.grants[best.node], j.grants[h.node]),
			cmp.Compare(jobs[h.node], jobs[best.node]),
			cmp.Compare(s.leads(best.node), s.leads(h.node)),
		) < 0) {
			best = h
		}
	}
	if best == nil {
		return s.node
	}
	return best.node
}

// leads is 1 for the node that leads, else 0.
func (s *state) leads(node string) int {
	if node == s.node {
		return 1
	}
	return 0
}

// mayHost reports whether jobs may be at home on a node: the cluster has it, and it is
// not about to go.
func (s *state) mayHost(node string) bool {
	h := s.hosts[node]
	return s.members[node] && (h == nil || !h.leaving)
}

// rehome gives the jobs another home whose node may not have them any more.
func (s *state) rehome() {
	if s.members == nil {
		return
	}
	for _, j := range s.live {
		if !s.mayHost(j.home) && j.home != s.node {
			s.move(j, s.homeOf(j))
		}
	}
}

// move has another node run a job from now on: it goes on there once nobody owns it
// any more.
func (s *state) move(j *job, home string) {
	if home == j.home {
		return
	}
	if !slices.Contains(j.homes, j.home) {
		j.homes = append(j.homes, j.home)
	}
	j.home, j.phase = home, starting
	j.acked = 0 // who runs it there already may know an older size
	s.touch(j)
}

// ownedBy takes in that the home of a job finds it owned by another node, which
// lives. Of the cluster's nodes that one is the home then: it was taken for lost, or
// runs the job since before this Scheduler. A node that was the job's home, and is
// missed, has to end first, as it will; anybody else has taken the job over.
func (s *state) ownedBy(now time.Time, j *job, m *messages.StartJobReply) {
	owner := m.GetOwner()
	switch {
	case m.GetNode() != j.home: // that it was
	case s.mayHost(owner):
		s.move(j, owner)
	case s.members[owner], slices.Contains(j.homes, owner):
	case j.stranger.IsZero():
		j.stranger = now
	case now.Sub(j.stranger) >= strangerFor:
		j.incarnation = max(j.incarnation, m.GetJob().GetIncarnation())
		s.news = append(s.news, event{job: j.id, incarnation: j.incarnation, event: &messages.JobEvent{
			What: &messages.JobEvent_TakenOver{TakenOver: &messages.JobTakenOver{Failure: m.GetFailure()}},
		}})
		s.finish(now, j, messages.Phase_PHASE_TAKEN_OVER)
	}
}

// goOn takes up a job that runs on a node already, with what it may have from now on.
func (s *state) goOn(j *job, home string) {
	s.live = insert(s.live, j)
	j.n = s.first(j, 0)
	j.wanted, j.phase, j.home = j.n, starting, home
	j.seq++
	s.touch(j)
	s.rehome()
}
