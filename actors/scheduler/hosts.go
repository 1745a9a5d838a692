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
	leaving bool              // it is about to go
	slots   uint32            // 0 unless present, and while it leaves
	held    map[string]uint32 // attempts by job id; nil unless present
	labels  map[string]string // of the last report
	version string
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
	h.slots, h.leaving = min(m.GetSlots(), task.MaxParallelism), m.GetLeaving()
	if h.leaving {
		h.slots = 0
	}
	h.labels, h.version = m.GetLabels(), m.GetVersion()
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
func (h *host) leave() { h.present, h.leaving, h.slots, h.held = false, false, 0, nil }

// onReport takes in a host's report: new slots, and which of them are held.
func (s *state) onReport(now time.Time, m *messages.HostReported) {
	if s.members != nil && !s.members[m.GetNode()] {
		return // late, or early: it comes again each second
	}
	h := s.host(now, m.GetNode())
	if !h.fresh(m) {
		return
	}
	stays := !h.leaving
	h.hear(now, m)
	s.trim(h)
	if h.leaving && stays { // whoever has something there has to take it
		for _, j := range s.live {
			s.resized(j)
		}
		s.rehome()
	}
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

// onListed takes in which nodes the cluster has. Whoever it has not any more has
// nothing to give, whatever was heard of it last.
func (s *state) onListed(now time.Time, m *messages.NodesListed) {
	s.members = map[string]bool{}
	for _, node := range m.GetNodes() {
		s.members[node] = true
	}
	for _, h := range s.sortedHosts() {
		if h.present && !s.members[h.node] {
			s.depart(h)
		}
	}
	s.rehome()
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

// outlook is what jobs have to know of nodes that they do not get.
type outlook struct{ gone, leaving []string } // by name

// outlook returns the nodes that were there and are not, and those about to go.
func (s *state) outlook() (o outlook) {
	for _, h := range s.sortedHosts() {
		switch {
		case !h.present:
			o.gone = append(o.gone, h.node)
		case h.leaving:
			o.leaving = append(o.leaving, h.node)
		}
	}
	return o
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

// anyPresent reports whether a host is there to stay.
func (s *state) anyPresent() bool {
	for _, h := range s.hosts {
		if h.present && !h.leaving {
			return true
		}
	}
	return false
}

// trim takes back what a host no longer offers, from the last job first, and all
// from jobs whose labels it has no more.
func (s *state) trim(h *host) {
	granted := uint32(0)
	for _, j := range s.live {
		if had := j.slots(); j.grants[h.node] > 0 && !h.suits(j.task) {
			delete(j.grants, h.node)
			s.lose(j, had)
		}
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

// list says which hosts are present.
func (s *state) list(m *messages.ListHosts) *messages.ListHostsReply {
	reply, used := &messages.ListHostsReply{Term: s.term}, s.used()
	for _, node := range slices.Sorted(maps.Keys(s.hosts)) {
		h := s.hosts[node]
		if !h.present || m.GetJobId() != "" && h.held[m.GetJobId()] == 0 {
			continue
		}
		view := &messages.HostView{Node: node, Slots: h.slots, Labels: h.labels, Version: h.version, Leaving: h.leaving, Used: min(h.slots, used[node])}
		for _, n := range h.held {
			view.Busy += n
		}
		reply.Hosts = append(reply.Hosts, view)
	}
	return reply
}
