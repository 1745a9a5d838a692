package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

const (
	// hostSilence is how long a host may not report before it counts as gone.
	hostSilence = 10 * time.Second
	// hostMemory is how long a host that is gone is remembered, so that what it
	// sent before is still known to be late.
	hostMemory = time.Hour
	// maxBoots bounds how many earlier boots of a node are remembered.
	maxBoots = 16
)

// host is what the Scheduler knows of a node's FunctionHost.
type host struct {
	node    string
	boot    string
	boots   []string // that have ended, oldest first
	seq     uint64   // of the last report of this boot
	heard   time.Time
	present bool
	slots   uint32            // 0 unless present
	held    map[string]uint32 // attempts by job id; nil unless present
}

// fresh reports whether a report tells anything new.
func (h *host) fresh(m *messages.HostReported) bool {
	if m.GetBoot() == h.boot {
		return m.GetSeq() > h.seq
	}
	return !slices.Contains(h.boots, m.GetBoot())
}

// hear takes in a fresh report.
func (h *host) hear(now time.Time, m *messages.HostReported) {
	if m.GetBoot() != h.boot {
		h.bury(h.boot)
	}
	h.boot, h.seq, h.heard, h.present = m.GetBoot(), m.GetSeq(), now, true
	h.slots = min(m.GetSlots(), task.MaxParallelism)
	h.held = map[string]uint32{}
	for _, attempt := range m.GetHeld() {
		h.held[attempt.GetJob().GetId()]++
	}
}

// bury remembers that a boot of the host is over.
func (h *host) bury(boot string) {
	if boot != "" && !slices.Contains(h.boots, boot) {
		h.boots = append(h.boots, boot)
	}
	if len(h.boots) > maxBoots {
		h.boots = slices.Delete(h.boots, 0, len(h.boots)-maxBoots)
	}
}

// leave takes the host's slots away.
func (h *host) leave() { h.present, h.slots, h.held = false, 0, nil }

// onReport takes in a host's report: new slots, and which of them are held.
func (s *state) onReport(now time.Time, m *messages.HostReported) {
	h := s.host(now, m.GetNode())
	if !h.fresh(m) {
		return
	}
	h.hear(now, m)
	s.trim(h)
	s.settle(now)
}

// onLeft takes in that a boot of a host is over.
func (s *state) onLeft(now time.Time, m *messages.HostLeft) {
	h := s.host(now, m.GetNode())
	h.bury(m.GetBoot())
	if h.boot != m.GetBoot() {
		return // an earlier one
	}
	h.boot = ""
	s.depart(h)
	s.settle(now)
}

// depart takes a host's slots away, and has every job hear of it at once that
// has something running there, on slots granted to it or taken back before.
func (s *state) depart(h *host) {
	held := h.held
	h.leave()
	for _, j := range s.live {
		if held[j.id] > 0 && j.grants[h.node] == 0 { // else trim tells it
			s.resized(j)
		}
	}
	s.trim(h)
}

// gone returns the nodes that were there and are not, by name.
func (s *state) gone() []string {
	var gone []string
	for _, h := range s.hosts {
		if !h.present {
			gone = append(gone, h.node)
		}
	}
	slices.Sort(gone)
	return gone
}

// host returns what is known of a node's host, if only that it was heard of.
func (s *state) host(now time.Time, node string) *host {
	h := s.hosts[node]
	if h == nil {
		h = &host{node: node, heard: now}
		s.hosts[node] = h
	}
	return h
}

// expireHosts lets hosts go that have long been silent.
func (s *state) expireHosts(now time.Time) {
	for _, h := range s.sortedHosts() {
		switch silent := now.Sub(h.heard); {
		case h.present && silent >= hostSilence:
			s.depart(h)
		case silent >= hostMemory:
			delete(s.hosts, h.node)
		}
	}
	s.settle(now)
	s.despair(now)
}

// despair tells jobs that no slot will come, once hosts have been there without
// one for so long, and takes it back when one has.
func (s *state) despair(now time.Time) {
	switch {
	case s.allSlots() > 0 || !s.anyPresent():
		s.barren = time.Time{}
	case s.barren.IsZero():
		s.barren = now
	}
	hopeless := !s.barren.IsZero() && now.Sub(s.barren) >= hostSilence
	for _, j := range s.live {
		if j.hopeless != hopeless {
			j.hopeless = hopeless
			s.resized(j)
		}
	}
}

func (s *state) anyPresent() bool {
	for _, h := range s.hosts {
		if h.present {
			return true
		}
	}
	return false
}

// trim takes back what a host no longer offers, from the last job first.
func (s *state) trim(h *host) {
	granted := uint32(0)
	for _, j := range s.live {
		granted += j.grants[h.node]
	}
	for _, j := range slices.Backward(s.live) {
		if granted <= h.slots {
			return
		}
		had, before := j.grants[h.node], j.slots()
		if had == 0 {
			continue
		}
		j.take(h.node, granted-h.slots)
		granted -= had - j.grants[h.node]
		s.lose(j, before)
	}
}

// sortedHosts returns the hosts in the order of their names.
func (s *state) sortedHosts() []*host {
	hosts := make([]*host, 0, len(s.hosts))
	for _, h := range s.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *host) int { return cmp.Compare(a.node, b.node) })
	return hosts
}

// allSlots returns how many slots there are.
func (s *state) allSlots() uint32 {
	total := uint32(0)
	for _, h := range s.hosts {
		total += h.slots
	}
	return total
}

// free returns the slots that nobody has: of each host all but, for each job,
// those granted to it or those its attempts hold, whichever is more.
func (s *state) free() *spare {
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
	free := &spare{}
	for _, h := range s.hosts {
		if n := h.slots - min(h.slots, used[h.node]); n > 0 {
			free.hosts = append(free.hosts, spareHost{h.node, n})
			free.total += n
		}
	}
	return free
}

// spare is a number of free slots, by host.
type spare struct {
	hosts []spareHost
	total uint32
}

type spareHost struct {
	node  string
	slots uint32
}

// take takes n free slots, or all there are: those of the host with the most
// first, then by name, so that a job gets few hosts and the same ones each time.
func (f *spare) take(n uint32) map[string]uint32 {
	slices.SortFunc(f.hosts, func(a, b spareHost) int {
		return cmp.Or(cmp.Compare(b.slots, a.slots), cmp.Compare(a.node, b.node))
	})
	taken := map[string]uint32{}
	for i := range f.hosts {
		h := &f.hosts[i]
		if got := min(n, h.slots); got > 0 {
			taken[h.node] = got
			n, h.slots, f.total = n-got, h.slots-got, f.total-got
		}
	}
	return taken
}

// list says which hosts are present.
func (s *state) list() *messages.ListHostsReply {
	reply := &messages.ListHostsReply{Term: s.term}
	for _, node := range slices.Sorted(maps.Keys(s.hosts)) {
		h := s.hosts[node]
		if !h.present {
			continue
		}
		view := &messages.HostView{Node: node, Slots: h.slots}
		for _, n := range h.held {
			view.Busy += n
		}
		reply.Hosts = append(reply.Hosts, view)
	}
	return reply
}
