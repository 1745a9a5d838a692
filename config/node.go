package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// The bounds of a node.
const (
	MaxSlots   = 65536 // as many as a job may have functions
	MaxThreads = 1024  // of one function
)

// Node is one node of the company: what it offers and where it keeps things.
type Node struct {
	// Name is the node's name in messages and logs. Not empty.
	Name string `json:"name"`

	// Slots is how many functions run at once, in [1, MaxSlots].
	Slots int `json:"slots"`

	// Threads is how many threads one function may use. 0 means: what the
	// cores give each slot; see ThreadsPerSlot.
	Threads int `json:"threads,omitempty"`

	// Python is the interpreter that runs the users' programs; empty: found
	// when the first one comes. The next five are about their workers.
	Python string `json:"python,omitempty"`

	// MemoryLimit bounds the memory of one worker, in bytes; 0: nothing does.
	MemoryLimit int64 `json:"memory_limit,omitempty"`

	// IdleTimeout is how long a worker stays that has nothing to do; 0: 60 s.
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`

	// NoPin leaves it to the system on which cores workers run.
	NoPin bool `json:"no_pin,omitempty"`

	// GPUs is "auto" (those there are), "none", or how many to use; empty: auto.
	GPUs string `json:"gpus,omitempty"`

	// Isolate runs Go functions in processes of their own, as programs are: one
	// that crashes, or does not return, costs one attempt. MemoryLimit and
	// IdleTimeout hold for them too.
	Isolate bool `json:"isolate,omitempty"`

	// Store is the URL of the bucket that holds what outlives a process.
	Store string `json:"store"`

	// Cache is the folder for copies of data sets and models of a store elsewhere,
	// which outlive the process: an absolute path; empty: they go with it. CacheLimit
	// bounds them, in bytes; 0: nothing does.
	Cache      string `json:"cache,omitempty"`
	CacheLimit int64  `json:"cache_limit,omitempty"`

	// Policy decides a job's N between epochs: one of Policies.
	Policy string `json:"policy"`

	// Jobs says where the jobs of a server run: one of JobsModes.
	Jobs string `json:"jobs,omitempty"`

	// Scratch holds what need not outlive the process.
	Scratch Scratch `json:"scratch"`
}

// DefaultNode returns a node that uses this machine's cores and the user's
// store. Store is empty where there is no home folder to put it in, which
// Validate reports.
func DefaultNode() Node {
	return Node{
		Name:    "local",
		Slots:   Cores(),
		Store:   DefaultStore(os.Getenv),
		Policy:  "throughput",
		Jobs:    JobsHere,
		Scratch: DefaultScratch(),
	}
}

// Cores returns how many cores this process may use, at least 1.
func Cores() int { return runtime.GOMAXPROCS(0) }

// Policies lists the names that Node.Policy may have.
func Policies() []string { return []string{"static", "throughput"} }

// Where the jobs of a server run: in its own process, or each in one of its own.
const (
	JobsHere        = "in-process"
	JobsInProcesses = "process"
)

// JobsModes lists what Node.Jobs may be.
func JobsModes() []string { return []string{JobsHere, JobsInProcesses} }

// ThreadsPerSlot returns Threads, or where that is 0 the cores divided by the
// slots, at least 1.
func (n Node) ThreadsPerSlot() int {
	if n.Threads > 0 {
		return n.Threads
	}
	return max(1, Cores()/max(1, n.Slots))
}

// Validate returns an Invalid error that names the first value that cannot be.
func (n Node) Validate() error {
	invalid := func(format string, args ...any) error {
		return fault.New("config.validate", fault.Invalid, format, args...)
	}
	switch {
	case n.Name == "":
		return invalid("the node has no name: give it one")
	case n.Slots < 1 || n.Slots > MaxSlots:
		return invalid("slots %d is out of range: give 1 to %d", n.Slots, MaxSlots)
	case n.Threads < 0 || n.Threads > MaxThreads:
		return invalid("threads %d is out of range: give 1 to %d, or leave it out for cores/slots", n.Threads, MaxThreads)
	case n.MemoryLimit < 0:
		return invalid("memory limit of %d bytes: give a number above 0, or leave it out for none", n.MemoryLimit)
	case n.IdleTimeout < 0:
		return invalid("idle timeout %v: give a duration above 0", n.IdleTimeout)
	case n.Cache != "" && !filepath.IsAbs(n.Cache):
		return invalid("cache %q is no absolute path: give one, such as /var/cache/troupe", n.Cache)
	case n.CacheLimit < 0:
		return invalid("cache limit of %d bytes: give a number above 0, or leave it out for %d", n.CacheLimit, int64(DefaultCacheLimit))
	case n.Store == "":
		return invalid("there is no store: give --store file:///folder, or set TROUPE_STORE or HOME")
	case !slices.Contains(Policies(), n.Policy):
		return invalid("there is no policy %q: give one of %s", n.Policy, strings.Join(Policies(), ", "))
	case n.Jobs != "" && !slices.Contains(JobsModes(), n.Jobs):
		return invalid("jobs do not run %q: give one of %s", n.Jobs, strings.Join(JobsModes(), ", "))
	case n.Jobs == JobsInProcesses && strings.HasPrefix(n.Store, "mem:"):
		return invalid("jobs %s: no other process sees the store %s: give --store file:///folder, or --jobs %s", n.Jobs, n.Store, JobsHere)
	}
	return n.Scratch.Validate()
}
