package child

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Process is a process that we may kill, with its group: a child of ours or of
// a zygote. It is watched to its end.
type Process struct {
	PID  int
	Gone chan struct{} // closed when it has ended
	Exit *Exit

	pidfd func() error // kills it, and nobody who got its number later
	once  sync.Once    // kills the group of one that is gone
}

// Exit is how a process ended, told by its parent, possibly never.
type Exit struct {
	Told   chan struct{}
	Status syscall.WaitStatus // valid when Told is closed
}

// NewExit returns the exit of a process that has not ended.
func NewExit() *Exit { return &Exit{Told: make(chan struct{})} }

// Tell says how the process ended. Once.
func (e *Exit) Tell(status syscall.WaitStatus) {
	e.Status = status
	close(e.Told)
}

// WatchChild watches a child of ours, until its end; done is called after.
func WatchChild(cmd *exec.Cmd, done func()) *Process {
	p := &Process{PID: cmd.Process.Pid, Gone: make(chan struct{}), Exit: NewExit(), pidfd: cmd.Process.Kill}
	go func() {
		defer done()
		_ = cmd.Wait() // what it says is in ProcessState
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			p.Exit.Tell(status)
		}
		close(p.Gone)
		p.sweep()
	}()
	return p
}

// WatchForked watches a process whose parent is a zygote, which will tell how
// it ended. That it ended is seen here, whether or not the zygote lives; done is
// called after.
func WatchForked(pid int, exit *Exit, done func()) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fault.New("child.watch", fault.Unavailable, "watch worker process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fault.New("child.watch", fault.Unavailable, "watch worker process %d: %w", pid, err)
	}
	p := &Process{PID: pid, Gone: make(chan struct{}), Exit: exit}
	p.pidfd = func() error {
		return conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
	go func() {
		defer done()
		_ = conn.Read(ended)
		close(p.Gone)
		p.sweep()
		_ = file.Close()
	}()
	return p, nil
}

// ended reports whether the process of a pidfd has ended.
func ended(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || (err != nil && err != unix.EINTR)
}

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.Gone:
		return false
	default:
		return true
	}
}

// Kill ends the process and its group at once.
func (p *Process) Kill() {
	if !p.Alive() {
		return
	}
	_ = unix.Kill(-p.PID, unix.SIGKILL)
	_ = p.pidfd()
}

// End kills the process and waits until it is gone, for so long at most.
func (p *Process) End(patience time.Duration) {
	p.Kill()
	p.Await(patience)
}

// Await waits until the process is gone, for so long at most.
func (p *Process) Await(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.Gone:
	case <-timer.C:
	}
}

// Freeze stops the process and its group; Kill ends them nevertheless.
func (p *Process) Freeze() { _ = unix.Kill(-p.PID, unix.SIGSTOP) }

// sweep kills what is left of the group of a process that has ended.
func (p *Process) sweep() { p.once.Do(func() { _ = unix.Kill(-p.PID, unix.SIGKILL) }) }

// Spawner starts processes, all from one thread. A child that is to die with
// its parent dies with the parent's thread, and Go ends threads as it likes; so
// this one is locked to a goroutine that lives longer than every child.
type Spawner struct {
	requests chan spawn
	done     chan struct{}
}

type spawn struct {
	cmd   *exec.Cmd
	reply chan error
}

// NewSpawner returns one, which Close ends.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawn), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		for r := range s.requests {
			r.reply <- r.cmd.Start()
		}
	}()
	return s
}

// Start starts cmd in a process group of its own. It dies with this process,
// whatever ends that.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := spawn{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.reply
}

// CloseAfter ends the thread once tasks have ended, which take care of all that
// it started, and reports whether they have within the patience.
func (s *Spawner) CloseAfter(tasks *sync.WaitGroup, patience time.Duration) bool {
	gone := make(chan struct{})
	go func() {
		tasks.Wait()
		s.Close()
		close(gone)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-gone:
		return true
	case <-timer.C:
		return false
	}
}

// Close ends the thread. All that it started must have ended.
func (s *Spawner) Close() {
	close(s.requests)
	<-s.done
}
