package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/task"
)

const maxKey = 255 // bytes of an Idempotency-Key

// InferRequest is what POST /infer takes, with KubeML's field names.
type InferRequest struct {
	ModelID string          `json:"model_id" doc:"id of the job that trained it"`
	Data    json.RawMessage `json:"data" doc:"samples, as the function takes them"`
}

// InferResponse is what POST /infer answers.
type InferResponse struct {
	Predictions json.RawMessage `json:"predictions"`
}

// ResumeRequest is what POST /tasks/{id}/resume takes; the body may be missing.
type ResumeRequest struct {
	Parallelism uint32 `json:"parallelism,omitempty" doc:"N of the next round; 0 or missing: as before"`
}

// ResizeRequest is what POST /tasks/{id}/resize takes.
type ResizeRequest struct {
	Parallelism uint32 `json:"parallelism" doc:"functions, 1 to 65536"`
}

// Pruned is the answer to DELETE /history.
type Pruned struct {
	Deleted int `json:"deleted" doc:"jobs that were forgotten"`
}

func (s *Server) train(w *response, r *http.Request) error {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey || strings.ContainsFunc(key, unicode.IsControl) {
		return jobjson.Invalid("Idempotency-Key of %d bytes: give at most %d, without control characters", len(key), maxKey)
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	t, err := jobjson.DecodeTask(body)
	if err != nil {
		return err
	}
	id, warnings, err := s.company.SubmitJob(r.Context(), key, t)
	if err != nil {
		return err
	}
	w.warn(warnings)
	w.Header().Set("Location", "/tasks/"+id)
	return plainText(w, id)
}

func (s *Server) infer(w *response, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var asked InferRequest
	if err := jobjson.Decode("request", body, &asked, "model_id", "data"); err != nil {
		return err
	}
	if err := jobjson.CheckModel(asked.ModelID); err != nil {
		return err
	}
	if len(asked.Data) == 0 || string(asked.Data) == "null" {
		return jobjson.Invalid("request: there is no data: give samples, as the function takes them")
	}
	predictions, err := s.company.Infer(r.Context(), asked.ModelID, asked.Data)
	if err != nil {
		return err
	}
	w.json(http.StatusOK, InferResponse{Predictions: predictions})
	return nil
}

func (s *Server) tasks(w *response, r *http.Request) error {
	views, err := s.company.RunningJobs(r.Context())
	if err != nil {
		return err
	}
	w.json(http.StatusOK, jobjson.NewTasks(s.mayKnow(r, views...)))
	return nil
}

func (s *Server) task(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	v, err := s.company.Job(r.Context(), id)
	if err != nil {
		return err
	}
	w.json(http.StatusOK, jobjson.NewTaskDetails(s.mayKnow(r, v)[0]))
	return nil
}

func (s *Server) stop(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	reason := r.URL.Query().Get("reason")
	if len(reason) > jobjson.MaxLabel || strings.ContainsFunc(reason, unicode.IsControl) {
		return jobjson.Invalid("reason of %d bytes: give at most %d, without control characters", len(reason), jobjson.MaxLabel)
	}
	if reason == "" {
		reason = "asked for over HTTP"
	}
	said := r.URL.Query().Get("life")
	if said == "" {
		return s.accepted(w, id, s.company.StopJob(r.Context(), id, reason))
	}
	life, err := strconv.ParseUint(said, 10, 64)
	if err != nil {
		return jobjson.Invalid("life %q: give the life of the job as GET /tasks/{id} shows it, or none", jobjson.Shown(said))
	}
	return s.accepted(w, id, s.company.StopLife(r.Context(), id, reason, life))
}

func (s *Server) resume(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var n int64
	if len(body) > 0 {
		if n, err = parallelism(body, 0); err != nil {
			return err
		}
	}
	return s.accepted(w, id, s.company.ResumeStoredJob(r.Context(), id, uint32(n)))
}

func (s *Server) resize(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	n, err := parallelism(body, 1)
	if err != nil {
		return err
	}
	return s.accepted(w, id, s.company.ResizeJob(r.Context(), id, uint32(n)))
}

// parallelism reads {"parallelism": n}.
func parallelism(body []byte, least int64) (int64, error) {
	members, err := jobjson.Object("request", body)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, m := range members {
		if m.Name != "parallelism" {
			return 0, jobjson.Unknown("request", m.Name, []string{"parallelism"})
		}
		if m.IsNull() {
			continue
		}
		if n, err = jobjson.Signed(m.Name, m.Value, least, task.MaxParallelism); err != nil {
			return 0, err
		}
	}
	if n < least {
		return 0, jobjson.Invalid("request: there is no parallelism: give 1 to %d functions", task.MaxParallelism)
	}
	return n, nil
}

func (s *Server) accepted(w *response, id string, err error) error {
	if err == nil {
		w.json(http.StatusAccepted, jobjson.Accepted{ID: id})
	}
	return err
}

func (s *Server) stacks(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	text, err := s.company.Stacks(r.Context(), id)
	if err != nil {
		return err
	}
	return plainText(w, text)
}

func (s *Server) histories(w *response, r *http.Request) error {
	views, err := s.company.AllJobs(r.Context())
	if err != nil {
		return err
	}
	histories := make([]jobjson.History, 0, len(views)) // [], never null
	for _, v := range s.mayKnow(r, views...) {
		histories = append(histories, jobjson.NewHistory(v).Brief())
	}
	w.json(http.StatusOK, histories)
	return nil
}

func (s *Server) history(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	v, err := s.company.Job(r.Context(), id)
	if err != nil {
		return err
	}
	w.json(http.StatusOK, jobjson.NewHistory(s.mayKnow(r, v)[0]))
	return nil
}

func (s *Server) deleteHistory(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	return deleted(w, s.company.DeleteJob(r.Context(), id))
}

// pruneHistory forgets what has ended. What has gone meanwhile, or goes on
// again, is left.
func (s *Server) pruneHistory(w *response, r *http.Request) error {
	views, err := s.company.AllJobs(r.Context())
	if err != nil {
		return err
	}
	n := 0
	for _, v := range views {
		if v.GetResult() == nil {
			continue
		}
		switch err := s.company.DeleteJob(r.Context(), v.GetId()); fault.KindOf(err) {
		case fault.NotFound, fault.Conflict:
		default:
			if err != nil {
				return err
			}
			n++
		}
	}
	w.json(http.StatusOK, Pruned{Deleted: n})
	return nil
}

// job returns the id in a path. What cannot be an id is Invalid.
func job(r *http.Request) (string, error) {
	id := r.PathValue("id")
	return id, jobjson.CheckJob(id)
}

func deleted(w *response, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func plainText(w *response, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, text) // a client that has gone is told nothing
	return nil
}

// readBody reads the body of a request, whose limits are set already.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, jobjson.BodyError(err)
	}
	return body, nil
}
