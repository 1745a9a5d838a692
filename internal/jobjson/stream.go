package jobjson

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/sse"
	"github.com/troupe-ml/troupe/messages"
)

// Events of jobs go over the wire as
//
//	id: <cursor>            event: <what happened>   data: <the event>
//	id: <cursor>            event: reset             data: {}       events before this are gone
//	                        event: end               data: {}       the job has ended, there is no more
//	                        event: error             data: {"error": …, "code": …}
const (
	Reset = "reset"
	End   = "end"
	Error = "error"
)

// SendEvent sends an event, or for nil the news that some before it are gone. It
// leaves out what this version does not know.
func SendEvent(out *sse.Writer, cursor string, e *messages.JobEvent) error {
	switch {
	case e == nil:
		return out.Send(sse.Event{ID: cursor, Name: Reset, Data: []byte("{}")})
	case EventName(e) == "":
		return nil
	}
	return out.Send(sse.Event{ID: cursor, Name: EventName(e), Data: EncodeEvent(e)})
}

// SendEnd says that a job has ended, so that there is no more.
func SendEnd(out *sse.Writer) error { return out.Send(sse.Event{Name: End, Data: []byte("{}")}) }

// SendError says why there is no more.
func SendError(out *sse.Writer, err error) error {
	body, wrong := json.Marshal(httpfault.NewErrorBody(httpfault.Status(fault.KindOf(err)), err))
	if wrong != nil {
		panic(wrong) // our own types are JSON
	}
	return out.Send(sse.Event{Name: Error, Data: body})
}

// CheckCursor refuses what is no cursor, "<job>:<incarnation>:<seq>", or that of
// another job; "" is that of none, and every job's.
func CheckCursor(job, cursor string) error {
	if cursor == "" {
		return nil
	}
	id, place, ok := strings.Cut(cursor, ":")
	incarnation, seq, ok2 := strings.Cut(place, ":")
	_, err1 := strconv.ParseUint(incarnation, 10, 64)
	_, err2 := strconv.ParseUint(seq, 10, 64)
	if !ok || !ok2 || err1 != nil || err2 != nil || CheckJob(id) != nil {
		return Invalid("event id %q: give one as the stream has it, <job>:<incarnation>:<seq>, or none", Shown(cursor))
	}
	if job != "" && id != job {
		return Invalid("event id %q is not of job %q: give one of that job, or none", Shown(cursor), Shown(job))
	}
	return nil
}

// WarningHeader carries a warning about what was accepted, as a quoted string of
// Go in ASCII; there may be several.
const WarningHeader = "Troupe-Warning"

// Accepted is the answer to what is done soon.
type Accepted struct {
	ID string `json:"id" doc:"of the job"`
}
