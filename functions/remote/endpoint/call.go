package endpoint

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// maxInfer is how long the data of an infer may be, in bytes.
const maxInfer = 256 << 20

// called answers a call.
func (e *Endpoint) called(w http.ResponseWriter, r *http.Request) {
	call, err := remote.ParseCall(r.URL.Query())
	if err != nil {
		fail(w, httpfault.Status(fault.KindOf(err)), err)
		return
	}
	if !e.takes(call.JobURL) {
		fail(w, http.StatusForbidden, fault.New("endpoint.call", fault.Invalid, "jobUrl=%.200q: this endpoint works for jobs at %s", call.JobURL, e.config.Jobs))
		return
	}
	data, err := infer(w, r, call.Task)
	if err != nil {
		fail(w, httpfault.Status(fault.KindOf(err)), err)
		return
	}
	k := key{Ref: call.Ref, job: call.JobURL, token: bearer(r)}
	run, err := e.join(k, func(ctx context.Context, slot int) answer { return e.answer(ctx, call, k.token, data, slot) })
	switch {
	case err != nil:
		fail(w, httpfault.Status(fault.KindOf(err)), err)
		return
	case run == nil:
		busy(w, e.config.Slots)
		return
	}
	defer e.leave(k, run)
	select {
	case <-run.done:
		send(w, run.answer.status, run.answer.body)
	case <-r.Context().Done(): // the connection is gone
	}
}

// infer reads the data of an infer; other calls have none. The server watches a
// connection only once the body of its request is read.
func infer(w http.ResponseWriter, r *http.Request, task functions.Task) (json.RawMessage, error) {
	most := int64(0)
	if task == functions.Infer {
		most = maxInfer
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	switch {
	case err != nil && task != functions.Infer:
		return nil, fault.New("endpoint.call", fault.Invalid, "a call to %s has no body: %w", task, err)
	case err != nil:
		return nil, fault.New("endpoint.call", fault.Invalid, "read what to infer from: %w", err)
	case task == functions.Infer && !json.Valid(data):
		return nil, fault.New("endpoint.call", fault.Invalid, "what to infer from is no JSON: %.100q", data)
	}
	return data, nil
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// answer runs an attempt to its end.
func (e *Endpoint) answer(ctx context.Context, call remote.Call, token string, data json.RawMessage, slot int) answer {
	log := e.config.Log.With(zap.String("job_id", call.Job), zap.Int("epoch", call.Epoch), zap.Int("round", call.Round),
		zap.Int("function", call.Function), zap.Int("attempt", call.Attempt), zap.Int("slot", slot))
	log.Debug("attempt began", zap.String("task", string(call.Task)))
	results, err := e.attempt(ctx, call, token, data, slot)
	if err != nil {
		log.Warn("attempt failed", zap.Error(err), zap.Stringer("kind", fault.KindOf(err)))
		f := remote.FailureOf(err)
		return answer{f.Code, encode(f)}
	}
	log.Debug("attempt ended")
	return answer{http.StatusOK, encode(results)}
}

// encode returns what is made of numbers and text as JSON.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil { // what the function gave as its predictions is none
		f := remote.FailureOf(fault.New("endpoint.answer", fault.Rejected, "the answer is no JSON: %w", err))
		body, _ = json.Marshal(f)
	}
	return append(body, '\n')
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, err error) {
	f := remote.FailureOf(err)
	f.Code = status
	send(w, status, encode(f))
}

func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who is gone gets nothing
}
