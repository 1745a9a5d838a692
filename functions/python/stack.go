package python

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// maxStack bounds what is told of a stack, in bytes.
const maxStack = 64 << 10

// stackFile is where the process with a token writes its stacks, on SIGUSR1: a
// file of its own, because its log may be full of what it prints. See runModule
// and python/troupe/process.py.
func (r *Runtime) stackFile(token string) string { return filepath.Join(r.dir, "stack-"+token) }

var _ functions.Tracer = (*Runtime)(nil)

// began and ended frame the time that an attempt is in a worker's hands.
func (r *Runtime) began(a *attempt, w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[*attempt]*worker{}
	}
	r.at[a] = w
}

func (r *Runtime) ended(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, a)
}

// Stacks implements functions.Tracer: the Python stacks of all threads.
func (r *Runtime) Stacks(jobID string) map[int]string {
	r.mu.Lock()
	at := map[*attempt]*worker{}
	for a, w := range r.at {
		if a.inv.JobID == jobID {
			at[a] = w
		}
	}
	r.mu.Unlock()
	stacks := map[int]string{}
	for a, w := range at {
		stacks[a.inv.Index] = strings.Join(r.stackOf(w.proc, w.stacks, a.program.Path), "\n")
	}
	return stacks
}

// stackOf has a process write where each of its threads is into the file of its
// stacks, and returns that as lines; none when it cannot.
func (r *Runtime) stackOf(p *child.Process, path, program string) []string {
	before := sizeOf(path)
	if !p.Alive() || !catches(p.PID, unix.SIGUSR1) || unix.Kill(p.PID, unix.SIGUSR1) != nil {
		return nil
	}
	settle(p, path, before)
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) <= before {
		return nil
	}
	text = text[before:min(int64(len(text)), before+maxStack)]
	return trimStack(strings.ToValidUTF8(string(text), "\uFFFD"), r.sdk, program)
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

// catches reports whether a process handles a signal: one that has just started
// does not yet, and would die of it.
func catches(pid int, signal unix.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, found := bytes.Cut(status, []byte("\nSigCgt:"))
	if err != nil || !found {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && mask&(1<<(signal-1)) != 0
}

// frameLine is a frame as Python's faulthandler writes it.
var frameLine = regexp.MustCompile(`^  File "(.*)", line (\d+|\?\?\?) in (.*)$`)

// trimStack returns the lines of a stack, of frames those that are the user's,
// with files of the program named from its folder on: nobody knows the place
// where a worker has them. Threads without such frames are left out. Where all
// would be, the whole is returned.
func trimStack(text, sdk, program string) []string {
	folder := program
	if info, err := os.Stat(program); err != nil || !info.IsDir() {
		folder = filepath.Dir(program)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var kept []string
	head := ""
	for _, line := range lines {
		frame := frameLine.FindStringSubmatch(line)
		switch {
		case frame == nil && !strings.HasPrefix(line, "  "):
			head = line
			continue
		case frame != nil && isOurs(frame[1], sdk):
			continue
		case frame != nil:
			line = fmt.Sprintf("  File %q, line %s in %s", strings.TrimPrefix(frame[1], folder+string(filepath.Separator)), frame[2], frame[3])
		case head != "":
			continue // "  ...", of a thread with nothing else
		}
		if head != "" {
			kept = append(kept, head)
			head = ""
		}
		kept = append(kept, line)
	}
	if kept == nil {
		return lines
	}
	return kept
}

// isOurs reports whether code in a file is not the user's.
func isOurs(file, sdk string) bool {
	return strings.HasPrefix(file, sdk+string(filepath.Separator)) || strings.HasPrefix(file, "<frozen ") || file == "<string>"
}
