package python

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// tellTime is how long the word of how a process ended may be behind its end.
const tellTime = 300 * time.Millisecond

// ending says how a process ended that is gone: a verb and more.
func (p *process) ending() string {
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	select {
	case <-p.exit.told:
		return describe(p.exit.status)
	case <-timer.C:
		return "ended, nobody saw how"
	}
}

// ended says why a process is of no use any more, after reading from it gave
// err.
func (p *process) ended(err error) string {
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	if _, garbage := errors.AsType[*frameError](err); !garbage {
		select {
		case <-p.gone:
			return p.ending()
		case <-timer.C:
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "closed its connection"
	}
	return "cannot be understood: " + err.Error()
}

func describe(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return fmt.Sprintf("ended with exit status %d", status.ExitStatus())
	}
	text := fmt.Sprintf("was killed by signal %d (%s)", status.Signal(), unix.SignalName(status.Signal()))
	if status.Signal() == syscall.SIGKILL {
		text += ", as the system does when memory runs out: if it happens again use a smaller batch or fewer --slots"
	}
	return text
}

// failure is what a zygote or worker says went wrong.
type failure struct {
	Kind      string   `json:"kind"`
	Type      string   `json:"type"`
	Message   string   `json:"message"`
	Traceback string   `json:"traceback"`
	Method    string   `json:"method"` // of the user's class, "" = none
	Where     string   `json:"where"`  // file:line of the user's that raised, "" = unknown
	Warnings  []string `json:"warnings"`
}

// fault is the failure of a program as an error of ours.
func (f *failure) fault(function string) error {
	text := strings.TrimSpace(f.Message)
	switch f.Kind {
	case "invalid", "unsupported":
		return fault.New("python.run", fault.Invalid, "function %q: %s", function, text)
	case "corrupt":
		return fault.New("python.run", fault.Corrupt, "function %q: %s", function, text)
	case "rejected":
		return fault.New("python.run", fault.Rejected, "function %q: %s", function, text)
	case "memory": // the text says what helps
		return fault.New("python.run", fault.Unavailable, "function %q: %s", function, text)
	case "user":
		where := ""
		if f.Method != "" {
			where = " in " + f.Method
		}
		if f.Where != "" {
			where += " (" + f.Where + ")"
		}
		e := fault.New("python.run", fault.UserCode, "function %q raised %s%s: %s", function, f.Type, where, text)
		if e.Trace = f.Traceback; e.Trace == "" {
			e.Trace = f.Type + ": " + text
		}
		return e
	}
	return fault.New("python.run", fault.Unavailable, "the worker of function %q failed: %s: %s\n%s", function, f.Type, text, f.Traceback)
}
