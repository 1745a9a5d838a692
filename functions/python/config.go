package python

import (
	"io/fs"
	"time"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Config is what a Runtime is made with. The zero value works: it finds Python,
// has a slot for each core, and tells nobody what programs print.
type Config struct {
	// Python is the interpreter to use; "" = the one that Find finds.
	Python string
	// Getenv reads the environment for Find; nil = that of this process.
	Getenv func(string) string

	Slots       int           // of the host; 0 = as many as cores
	Threads     int           // of a worker whose invocation does not say; 0 = cores/slots
	MemoryLimit int64         // bytes of a worker; 0 = none
	IdleTimeout time.Duration // after which an unused worker is let go; 0 = 60 s, below 0 = never
	Pin         bool          // bind each slot's worker to cores of its own, where enough can be claimed
	GPUs        string        // "auto" or "" (those there are), "none", or a count: slot s gets GPU s % count

	// Dir is a folder for the files of this process, in which it makes one of
	// its own. "" = UserDir.
	Dir string
	// UserDir is the folder that all processes of one user share, where cores
	// are claimed; "" = troupe-<uid> in the folder for temporary files.
	UserDir string
	// SDK holds the Python packages; nil = those built in.
	SDK fs.FS

	// After calls f once, d from now, on a goroutine of its own, unless stop is
	// called before; nil = time.AfterFunc.
	After func(d time.Duration, f func()) (stop func())
	// Log gets each line that a program prints. It is called from several
	// goroutines, and what it takes long for holds up the program; nil = nobody.
	Log func(Line)
	// Warn gets what the person who runs this should know of an invocation that has
	// no Warn of its own; nil = nobody.
	Warn func(string)
}

// Line is one line that a program wrote.
type Line = child.Line

const defaultIdle = 60 * time.Second

// withDefaults returns c with every default set, or an Invalid error.
func (c Config) withDefaults() (Config, error) {
	invalid := func(format string, args ...any) (Config, error) {
		return c, fault.New("python.new", fault.Invalid, format, args...)
	}
	switch {
	case c.Slots < 0 || c.Slots > config.MaxSlots:
		return invalid("slots %d is out of range: give 1 to %d", c.Slots, config.MaxSlots)
	case c.Threads < 0 || c.Threads > config.MaxThreads:
		return invalid("threads %d is out of range: give 1 to %d, or leave it out for cores/slots", c.Threads, config.MaxThreads)
	case c.MemoryLimit < 0:
		return invalid("memory limit of %d bytes: give a number above 0, or 0 for none", c.MemoryLimit)
	}
	if c.Slots == 0 {
		c.Slots = config.Cores()
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdle
	}
	if c.After == nil {
		c.After = func(d time.Duration, f func()) func() {
			timer := time.AfterFunc(d, f)
			return func() { timer.Stop() }
		}
	}
	if c.Log == nil {
		c.Log = func(Line) {}
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	return c, nil
}
