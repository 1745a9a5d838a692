package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/messages"
)

// suits reports whether a host may run the functions of a job: it is the one that
// is named, if one is, and has every label that is required.
func (h *host) suits(t *messages.TrainTask) bool {
	if t.GetNode() != "" && t.GetNode() != h.node {
		return false
	}
	for key, value := range t.GetOptions().GetRequireLabels() {
		if has, ok := h.labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// slotsFor returns how many slots there are that a job may have.
func (s *state) slotsFor(j *job) uint32 {
	total := uint32(0)
	for _, h := range s.hosts {
		if h.suits(j.task) {
			total += h.slots
		}
	}
	return total
}

// labelsWarning returns what a person should know about a job whose labels no
// node has that is there, and "" where one has.
func (s *state) labelsWarning(j *job) string {
	required := j.task.GetOptions().GetRequireLabels()
	if len(required) == 0 || !s.anyPresent() {
		return ""
	}
	for _, h := range s.hosts {
		if h.present && !h.leaving && h.suits(j.task) {
			return ""
		}
	}
	return fmt.Sprintf("no node has what the job requires, %s: it waits for one that is started with --node-label %s",
		labelsText(required, ", "), labelsText(required, " --node-label "))
}

func labelsText(labels map[string]string, separator string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, separator)
}

// used returns how many slots of each host jobs have: for each job those granted to
// it or those its attempts hold, whichever is more.
func (s *state) used() map[string]uint32 {
	used := map[string]uint32{}
	for node, h := range s.hosts {
		for _, n := range h.held {
			used[node] += n
		}
	}
	for _, j := range s.live {
		for node, n := range j.grants {
			used[node] += n - min(n, s.hosts[node].held[j.id])
		}
	}
	return used
}

// free returns the slots that no job has.
func (s *state) free() *spare {
	used, granted, free := s.used(), map[string]uint32{}, &spare{}
	for _, j := range s.live {
		for node, n := range j.grants {
			granted[node] += n
		}
	}
	for _, h := range s.hosts {
		if n := h.slots - min(h.slots, granted[h.node]); n > 0 {
			free.hosts = append(free.hosts, spareHost{host: h, free: h.slots - min(h.slots, used[h.node]), rest: n})
		}
	}
	return free
}

// spare is a number of free slots, by host.
type spare struct{ hosts []spareHost }

type spareHost struct {
	*host
	free uint32 // that nobody has
	rest uint32 // that are not granted
}

// most returns how many more slots a job may have there: free ones, and those that
// its own attempts hold beyond what is granted to it, as those of a job do that runs
// since before this Scheduler.
func (h *spareHost) most(j *job) uint32 {
	if !h.suits(j.task) {
		return 0
	}
	return min(h.free+h.own(j), h.rest)
}

func (h *spareHost) own(j *job) uint32 { return h.held[j.id] - min(h.held[j.id], j.grants[h.node]) }

// count returns how many of the free slots a job may have.
func (f *spare) count(j *job) uint32 {
	total := uint32(0)
	for i := range f.hosts {
		total += f.hosts[i].most(j)
	}
	return total
}

// take takes n free slots for a job, or all that it may have: those of hosts where
// it has some already first, since its model and data are there; then those of the
// host with the most, then by name, so that it gets few hosts and the same ones
// each time.
func (f *spare) take(j *job, n uint32) map[string]uint32 {
	slices.SortFunc(f.hosts, func(a, b spareHost) int {
		return cmp.Or(cmp.Compare(j.at(b.node), j.at(a.node)), cmp.Compare(b.free, a.free), cmp.Compare(a.node, b.node))
	})
	taken := map[string]uint32{}
	for i := range f.hosts {
		h := &f.hosts[i]
		if got := min(n, h.most(j)); got > 0 {
			taken[h.node] = got
			h.free -= got - min(got, h.own(j))
			n, h.rest = n-got, h.rest-got
		}
	}
	return taken
}

// at is 1 where the job has slots on a node, else 0.
func (j *job) at(node string) int { return int(min(j.grants[node], 1)) }
