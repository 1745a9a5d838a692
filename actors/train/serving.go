package train

import (
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
	"github.com/troupe-ml/troupe/messages"
)

// heartbeat is how often a quiet stream of events says that it lives.
const heartbeat = 15 * time.Second

// serveStart answers POST /start with the id of the job, as text.
func (j *TrainJob) serveStart(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	task, size, err := jobjson.DecodeStart(j.name(), body)
	if err != nil {
		return err
	}
	submission, err := j.start(r.Context(), task, size)
	if err != nil {
		return err
	}
	warn(w, submission.Warnings)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, submission.ID)
	return nil
}

// serveUpdate answers POST /update once the size of the job is decided; it has it
// from its next round on.
func (j *TrainJob) serveUpdate(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	update, err := jobjson.DecodeUpdate(body)
	if err != nil {
		return err
	}
	if err := j.update(r.Context(), update); err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, jobjson.Accepted{ID: j.name()})
	return nil
}

// serveStop answers DELETE /stop once it is sure that the job will end.
func (j *TrainJob) serveStop(w http.ResponseWriter, r *http.Request) error {
	reason := r.URL.Query().Get("reason")
	if len(reason) > jobjson.MaxLabel || strings.ContainsFunc(reason, unicode.IsControl) {
		return jobjson.Invalid("reason of %d bytes: give at most %d, without control characters", len(reason), jobjson.MaxLabel)
	}
	if reason == "" {
		reason = "asked for over HTTP"
	}
	host, id, err := j.unended(r.Context())
	if err != nil {
		return err
	}
	if err := host.StopStoredJob(r.Context(), id, reason); err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, jobjson.Accepted{ID: id})
	return nil
}

// serveHealth answers GET /health: the job's process lives, whatever its phase.
func (j *TrainJob) serveHealth(w http.ResponseWriter, r *http.Request) error {
	h := jobjson.Health{ID: j.name(), Phase: "WAITING"}
	if v, err := j.view(r); err == nil {
		h.Phase, h.Incarnation = jobjson.StateName(v.GetPhase()), v.GetIncarnation()
		host, err := j.hosted()
		if err != nil {
			return err
		}
		if h.Busy, err = host.Busy(r.Context()); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, h)
	return nil
}

// serveHistory answers GET /history with what the job has done so far.
func (j *TrainJob) serveHistory(w http.ResponseWriter, r *http.Request) error {
	v, err := j.view(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, jobjson.NewHistory(v))
	if v.GetResult() != nil {
		j.tell()
	}
	return nil
}

// serveStacks answers GET /stacks with where the running functions are, as text.
func (j *TrainJob) serveStacks(w http.ResponseWriter, r *http.Request) error {
	host, id, err := j.running()
	if err != nil {
		return err
	}
	stacks, err := host.Stacks(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, stacks)
	return nil
}

func (j *TrainJob) view(r *http.Request) (*messages.JobView, error) {
	host, id, err := j.running()
	if err != nil {
		return nil, err
	}
	return host.Job(r.Context(), id)
}

// serveEvents answers GET /events with a stream of events, as GET /events?job=ID
// of a server does.
func (j *TrainJob) serveEvents(w http.ResponseWriter, r *http.Request) error {
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	host, id, err := j.running()
	if err != nil {
		return err
	}
	if err := jobjson.CheckCursor(id, after); err != nil {
		return err
	}
	w.Header().Set("Content-Type", sse.Media)
	if r.Method == http.MethodHead {
		return nil
	}
	out := sse.NewWriter(w, http.NewResponseController(w).Flush)
	if out.Failed() {
		return nil // nobody is there
	}
	err = out.While(r.Context(), heartbeat, func() error {
		return host.JobEvents(r.Context(), id, after, func(s Seen) error {
			return jobjson.SendEvent(out, s.Cursor, s.Event)
		})
	})
	switch {
	case r.Context().Err() != nil || out.Failed():
	case err != nil:
		_ = jobjson.SendError(out, err)
	default:
		if jobjson.SendEnd(out) == nil {
			j.tell()
		}
	}
	return nil
}

// serveExchange lets a function behind a URL fetch what its attempt is about and
// bring what it did. Whether it may, and which attempt is open, the exchange knows.
func (j *TrainJob) serveExchange(w http.ResponseWriter, r *http.Request) error {
	host, id, err := j.running()
	if err != nil {
		return err
	}
	host.Exchange().Job(id).ServeHTTP(w, r)
	return nil
}
