package scheduler

import (
	"fmt"

	"github.com/troupe-ml/troupe/internal/task"
)

// check returns an error when an invariant of state does not hold.
func (s *state) check() error {
	granted := map[string]uint32{}
	for _, j := range s.live {
		lo, hi := s.bounds(j)
		if limit := j.task.GetOptions().GetMaxParallelism(); limit == 0 {
			hi = task.MaxParallelism // the slots that there were
		}
		if j.phase == queued || j.n < 1 || j.n > hi || j.wanted < lo || s.jobs[j.id] != j {
			return fmt.Errorf("job %s: phase %d, N %d, wanted %d, bounds [%d, %d]", j.id, j.phase, j.n, j.wanted, lo, hi)
		}
		if j.home == "" {
			return fmt.Errorf("job %s has no home", j.id)
		}
		if has := j.slots(); has > j.n {
			return fmt.Errorf("job %s has %d slots for an N of %d", j.id, has, j.n)
		}
		for node, n := range j.grants {
			granted[node] += n
		}
	}
	for _, j := range s.live {
		for node := range j.grants {
			if h := s.hosts[node]; h != nil && !h.suits(j.task) {
				return fmt.Errorf("job %s has slots on node %s, which lacks its labels", j.id, node)
			}
		}
	}
	for node, n := range granted {
		if h := s.hosts[node]; h == nil || n > h.slots {
			return fmt.Errorf("%d slots granted on node %s, which offers %+v", n, node, h)
		}
	}
	for _, j := range s.queue {
		if j.phase != queued || j.n != 0 || j.home != "" || len(j.grants) > 0 || s.jobs[j.id] != j {
			return fmt.Errorf("job %s is queued in phase %d with N %d and slots %v", j.id, j.phase, j.n, j.grants)
		}
	}
	if len(s.jobs) != len(s.queue)+len(s.live) {
		return fmt.Errorf("%d jobs, of which %d are queued and %d live", len(s.jobs), len(s.queue), len(s.live))
	}
	free := s.free()
	for _, j := range s.queue {
		if n := free.count(j); n > 0 {
			return fmt.Errorf("job %s waits while %d slots are free that it may have", j.id, n)
		}
	}
	return s.checkOrder()
}

// checkOrder returns an error unless queue and live are sorted and no job that
// has ended is among them.
func (s *state) checkOrder() error {
	for _, jobs := range [][]*job{s.queue, s.live} {
		for i, j := range jobs {
			if i > 0 && order(jobs[i-1], j) >= 0 {
				return fmt.Errorf("job %s comes before job %s", jobs[i-1].id, j.id)
			}
			if _, ended := s.ended.get(j.id); ended {
				return fmt.Errorf("job %s has ended and has not", j.id)
			}
		}
	}
	return nil
}
