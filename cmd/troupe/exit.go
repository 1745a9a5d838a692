package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// The exit codes of every verb. A signal ends one that only looks on with 128
// plus its number, as a shell reports it; of one with a job of its own the first
// stops the job, and a second ends the process at once.
const (
	exitDone        = 0
	exitBug         = 1
	exitInvalid     = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
	exitCorrupt     = 6
	exitFailed      = 7
	exitStopped     = 8
	exitKilled      = 128
)

// endedError says that a job ended in another way than SUCCEEDED.
type endedError struct {
	id     string
	phase  messages.Phase // FAILED or STOPPED
	reason error          // nil when none was given
}

func (e *endedError) Error() string {
	state := strings.ToLower(jobjson.StateName(e.phase))
	if e.id == "" {
		return state + " before the job began"
	}
	if e.reason == nil {
		return fmt.Sprintf("job %s %s", e.id, state)
	}
	return fmt.Sprintf("job %s %s: %v", e.id, state, e.reason)
}

func (e *endedError) Unwrap() error { return e.reason }

// exitCode returns how the process ends after err, which may be nil.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		if ended.phase == messages.Phase_PHASE_STOPPED {
			return exitStopped
		}
		return exitFailed
	}
	if left, ok := errors.AsType[*leftError](err); ok {
		return exitKilled + number(left.sig)
	}
	switch fault.KindOf(err) {
	case fault.Invalid:
		return exitInvalid
	case fault.NotFound:
		return exitNotFound
	case fault.Conflict:
		return exitConflict
	case fault.Unavailable:
		return exitUnavailable
	case fault.Corrupt:
		return exitCorrupt
	case fault.UserCode, fault.Rejected:
		return exitFailed
	case fault.Unknown:
	}
	return exitBug
}

// exitsTemplate ends the help of a verb with its exit codes.
const exitsTemplate = `{{with index .Annotations "exits"}}
Exit codes:
{{.}}{{end}}`

// exits returns the annotation from which exitsTemplate reads.
func exits(codes ...int) map[string]string {
	var b strings.Builder
	for _, code := range codes {
		shown := strconv.Itoa(code)
		if code == exitKilled {
			shown = "128+n"
		}
		fmt.Fprintf(&b, "  %-5s  %s\n", shown, exitMeaning(code))
	}
	return map[string]string{"exits": b.String()}
}

func exitMeaning(code int) string {
	switch code {
	case exitDone:
		return "done"
	case exitInvalid:
		return "the request is wrong"
	case exitNotFound:
		return "there is no such function, data set, model or job"
	case exitConflict:
		return "the state of things forbids it"
	case exitUnavailable:
		return "something is out of reach or full; try again later"
	case exitCorrupt:
		return "stored or given bytes are damaged"
	case exitFailed:
		return "the job ended FAILED"
	case exitStopped:
		return "the job ended STOPPED: asked for, or by a first Ctrl-C, SIGTERM or SIGHUP"
	case exitKilled:
		return "ended by signal n (130: Ctrl-C); with a job of its own by a second one"
	}
	return "a bug of troupe"
}
