package python

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
)

// How long a process may take to write its stack, so that a cut call returns in
// time.
const (
	stackTime = 300 * time.Millisecond // in all
	quietTime = 40 * time.Millisecond  // without a byte more, and it is complete
)

// mostStack bounds what is read of a stack, in bytes: more than Python writes of
// as many threads and frames as it shows, which are a hundred each.
const mostStack = 16 << 20

// stackFile is where the process with a token writes its stacks, on SIGUSR1: a
// file of its own, because its log may be full of what it prints. See runModule
// and python/troupe/process.py.
func (r *Runtime) stackFile(token string) string { return filepath.Join(r.dir, "stack-"+token) }

var _ functions.Tracer = (*Runtime)(nil)

// Stacks implements functions.Tracer: the Python stacks of all threads.
func (r *Runtime) Stacks(jobID string) map[int]string { return r.at.Stacks(jobID) }

// stackOf has a process write where each of its threads is into the file of its
// stacks, and returns that as lines; of one that cannot, a line that says so.
func (r *Runtime) stackOf(p *child.Process, path, program string) []string {
	switch {
	case !p.Alive():
		return []string{fmt.Sprintf("process %d has ended", p.PID)}
	case stopped(p.PID):
		return []string{fmt.Sprintf("process %d is stopped (by SIGSTOP, or a debugger) and does nothing; kill -CONT %d has it go on", p.PID, p.PID)}
	case !catches(p.PID, unix.SIGUSR1):
		return []string{fmt.Sprintf("process %d has only just started", p.PID)}
	}
	before := sizeOf(path)
	// The main thread is the one that takes it: trimStack knows it by that.
	if unix.Tgkill(p.PID, p.PID, unix.SIGUSR1) == nil {
		settle(p, path, before)
	}
	text := readFrom(path, before)
	if text == "" {
		return []string{fmt.Sprintf("process %d has not said within %v where it is", p.PID, stackTime)}
	}
	return trimStack(text, r.sdk, program)
}

// readFrom returns what a file holds from an offset on.
func readFrom(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, offset, mostStack))
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// settle waits until a file has grown and grows no more.
func settle(p *child.Process, path string, before int64) {
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	limit := time.NewTimer(stackTime)
	defer limit.Stop()
	for last := before; ; {
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-p.Gone:
			return
		}
		now := sizeOf(path)
		if now == last && now > before {
			return
		}
		last = now
	}
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// stopped reports whether a process is held by a signal or a debugger.
func stopped(pid int) bool {
	state := statusOf(pid, "State")
	return strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t")
}

// catches reports whether a process handles a signal: one that has just started
// does not yet, and would die of it.
func catches(pid int, signal unix.Signal) bool {
	mask, err := strconv.ParseUint(statusOf(pid, "SigCgt"), 16, 64)
	return err == nil && mask&(1<<(signal-1)) != 0
}

// statusOf returns a field of what the kernel says of a process, "" of one that
// is gone.
func statusOf(pid int, field string) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(status), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
