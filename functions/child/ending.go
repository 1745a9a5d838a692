package child

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tellTime is how long the word of how a process ended may be behind its end.
const tellTime = 300 * time.Millisecond

// Ending says how a process ended that is gone: a verb and more.
func (p *Process) Ending() string {
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	select {
	case <-p.Exit.Told:
		return Describe(p.Exit.Status)
	case <-timer.C:
		return "ended, nobody saw how"
	}
}

// Ended says why a process is of no use any more, after reading from it gave
// err.
func (p *Process) Ended(err error) string {
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	if _, garbage := errors.AsType[*FrameError](err); !garbage {
		select {
		case <-p.Gone:
			return p.Ending()
		case <-timer.C:
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "closed its connection"
	}
	return "cannot be understood: " + err.Error()
}

// Describe says how a process ended: a verb and more.
func Describe(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return fmt.Sprintf("ended with exit status %d", status.ExitStatus())
	}
	text := fmt.Sprintf("was killed by signal %d (%s)", status.Signal(), unix.SignalName(status.Signal()))
	if status.Signal() == syscall.SIGKILL {
		text += ", as the system does when memory runs out: if it happens again use a smaller batch or fewer --slots"
	}
	return text
}
