package python

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/config"
)

// cores binds slots to cores that no other process of this user has bound
// anything to. They are claimed while there are workers, all or none: who cannot
// get enough leaves it to the scheduler of the system.
type cores struct {
	slots int
	each  int    // cores of a slot, possibly 0
	dir   string // where cores are claimed; "" = nobody is bound
	mask  []int  // those this process may use

	mu      sync.Mutex // guards what follows
	users   int        // workers that have taken
	claimed []*os.File // by core
	bound   []int      // the cores claimed, for all slots; nil = none
}

func newCores(c Config) *cores {
	s := &cores{slots: c.Slots, each: usable() / c.Slots, mask: affinity()}
	if !c.Pin {
		return s
	}
	if dir, err := userDir(c.UserDir); err == nil {
		s.dir = dir
	}
	return s
}

// affinity returns the cores that this process may run on.
func affinity() (mask []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			mask = append(mask, cpu)
		}
	}
	return mask
}

// usable is how many cores this process may keep busy: those of its affinity
// mask, or fewer where its cgroup has a quota. Go's own count knows both.
func usable() int { return config.Cores() }

// take returns the cores of a slot for a worker with that many threads, nil
// when it is not to be bound. It is followed by give.
func (c *cores) take(slot, threads int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	if c.users == 1 && c.dir != "" && c.each > 0 {
		c.claimLocked(c.each * c.slots)
	}
	if c.bound == nil || slot < 0 || slot >= c.slots || threads > c.each {
		return nil
	}
	return c.bound[slot*c.each : (slot+1)*c.each]
}

// claimLocked claims n cores, or none.
func (c *cores) claimLocked(n int) {
	for _, core := range c.mask {
		if len(c.bound) == n {
			break
		}
		if f, ok := claim(filepath.Join(c.dir, "core-"+strconv.Itoa(core))); ok {
			c.claimed, c.bound = append(c.claimed, f), append(c.bound, core)
		}
	}
	if len(c.bound) < n {
		c.freeLocked()
	}
}

// give gives back what take took. The last frees the cores for others.
func (c *cores) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		c.freeLocked()
	}
}

func (c *cores) freeLocked() {
	for _, f := range c.claimed {
		release(f)
	}
	c.claimed, c.bound = nil, nil
}
