package isolate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	readyTime = 30 * time.Second       // to say that it is ready, on a busy machine
	stackTime = 300 * time.Millisecond // to write its stacks
	endTime   = 400 * time.Millisecond // to be gone after SIGKILL
	lastTime  = 50 * time.Millisecond  // to be heard once it has ended
)

// worker is a child that runs invocations, one at a time.
type worker struct {
	slot    int
	proc    *child.Process
	control *os.File
	output  *child.Lines
	once    sync.Once

	stopIdle func() // of who has it idle

	writing sync.Mutex // held while something is written to control

	mu    sync.Mutex    // guards what follows
	why   string        // what its runtime said as it crashed, "" = nothing yet
	asked []chan string // where the child is, with room for one answer each
}

// start starts a child and waits until it is ready. Unavailable.
func (r *Runtime) start(ctx context.Context, slot int, owner child.Line) (*worker, error) {
	w, err := r.launch(slot, owner)
	if err != nil {
		return nil, fault.New("isolate.start", fault.Unavailable, "start a process for functions: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = w.control.SetReadDeadline(time.Now().Add(readyTime))
	var m fromChild
	err = child.ReadFrame(w.control, &m)
	_ = w.control.SetReadDeadline(time.Time{})
	switch {
	case err == nil && m.Ready:
		return w, nil
	case err == nil && m.Failed != nil:
		err = m.Failed.err()
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil && w.proc.Alive():
		err = fault.New("isolate.start", fault.Unavailable, "a process for functions did not say in %v that it is ready: "+
			"call actors.Isolated, with your functions, first thing in main", readyTime)
	default:
		err = fault.New("isolate.start", fault.Unavailable, "a process for functions %s before it was ready%s: "+
			"call actors.Isolated, with your functions, first thing in main", w.proc.Ended(err), w.output.LastWords())
	}
	w.end()
	return nil, err
}

// launch starts a child.
func (r *Runtime) launch(slot int, owner child.Line) (*worker, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer func() { _ = theirs.Close() }()
	printed, print, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	defer func() { _ = print.Close() }()
	w := &worker{slot: slot, control: ours}
	cmd := exec.Command("/proc/self/exe") // this program, even if its file has been replaced
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), variable+"="+strconv.FormatInt(r.config.MemoryLimit, 10))
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = print, print
	r.tasks.Add(2)
	w.output, err = child.ReadLines(printed, owner, w.hear(r.config.Log), r.tasks.Done)
	if err == nil {
		err = r.spawner().Start(cmd)
	} else {
		r.tasks.Done()
	}
	if err != nil {
		r.tasks.Done()
		_ = printed.Close()
		_ = ours.Close()
		return nil, err
	}
	w.proc = child.WatchChild(cmd, r.tasks.Done)
	r.tasks.Go(func() { // what it started may still hold the other end; what it has said last is there
		<-w.proc.Gone
		_ = ours.SetDeadline(time.Now().Add(lastTime))
	})
	return w, nil
}

// hear returns a log that notes why the child crashed.
func (w *worker) hear(log func(child.Line)) func(child.Line) {
	return func(l child.Line) {
		for _, prefix := range []string{"panic: ", "fatal error: ", "SIG"} {
			if strings.HasPrefix(l.Text, prefix) {
				w.mu.Lock()
				if w.why == "" {
					w.why = l.Text
				}
				w.mu.Unlock()
			}
		}
		log(l)
	}
}

// ended says why the child is of no use any more, after reading from it gave err.
func (w *worker) ended(err error) string {
	text := w.proc.Ended(err)
	w.output.Drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != "" {
		text += ": " + w.why
	}
	return text
}

// stack has the child write to its log where each of its goroutines is, which
// ends it. One that is frozen does not.
func (w *worker) stack() {
	if !w.proc.Alive() || unix.Kill(w.proc.PID, unix.SIGQUIT) != nil {
		return
	}
	w.proc.Await(stackTime)
}

// end kills the child with all that it started, and takes its last words. It
// returns when the process is gone, at most endTime later.
func (w *worker) end() {
	w.once.Do(func() {
		w.proc.End(endTime)
		w.output.Close()
		_ = w.control.Close()
	})
}

// own has what the child prints from now on be of another invocation.
func (w *worker) own(owner child.Line) {
	w.output.Drain()
	w.output.Owner.Store(&owner)
}
