package python

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// process is a process that we may kill, with its group: a child of ours or of
// a zygote. It is watched to its end.
type process struct {
	pid  int
	gone chan struct{} // closed when it has ended
	exit *exit

	pidfd func() error // kills it, and nobody who got its number later
	once  sync.Once    // kills the group of one that is gone
}

// exit is how a process ended, told by its parent, possibly never.
type exit struct {
	told   chan struct{}
	status syscall.WaitStatus // valid when told is closed
}

func newExit() *exit { return &exit{told: make(chan struct{})} }

func (e *exit) tell(status syscall.WaitStatus) {
	e.status = status
	close(e.told)
}

// watchChild watches a child of ours, until its end; done is called after.
func watchChild(cmd *exec.Cmd, done func()) *process {
	p := &process{pid: cmd.Process.Pid, gone: make(chan struct{}), exit: newExit(), pidfd: cmd.Process.Kill}
	go func() {
		defer done()
		_ = cmd.Wait() // what it says is in ProcessState
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			p.exit.tell(status)
		}
		close(p.gone)
		p.sweep()
	}()
	return p
}

// watchForked watches a process whose parent is a zygote, which will tell how
// it ended. That it ended is seen here, whether or not the zygote lives; done is
// called after.
func watchForked(pid int, exit *exit, done func()) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fault.New("python.watch", fault.Unavailable, "watch worker process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fault.New("python.watch", fault.Unavailable, "watch worker process %d: %w", pid, err)
	}
	p := &process{pid: pid, gone: make(chan struct{}), exit: exit}
	p.pidfd = func() error {
		return conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
	go func() {
		defer done()
		_ = conn.Read(ended)
		close(p.gone)
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

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// kill ends the process and its group at once.
func (p *process) kill() {
	if !p.alive() {
		return
	}
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	_ = p.pidfd()
}

// freeze stops the process and its group; kill ends them nevertheless.
func (p *process) freeze() { _ = unix.Kill(-p.pid, unix.SIGSTOP) }

// sweep kills what is left of the group of a process that has ended.
func (p *process) sweep() { p.once.Do(func() { _ = unix.Kill(-p.pid, unix.SIGKILL) }) }

// spawner starts processes, all from one thread. A child that is to die with
// its parent dies with the parent's thread, and Go ends threads as it likes; so
// this one is locked to a goroutine that lives longer than every child.
type spawner struct {
	requests chan spawn
	done     chan struct{}
}

type spawn struct {
	cmd   *exec.Cmd
	reply chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawn), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		for r := range s.requests {
			r.reply <- r.cmd.Start()
		}
	}()
	return s
}

// start starts cmd in a process group of its own. It dies with this process,
// whatever ends that.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := spawn{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.reply
}

// close ends the thread. All that it started must have ended.
func (s *spawner) close() {
	close(s.requests)
	<-s.done
}
