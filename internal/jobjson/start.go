package jobjson

import (
	"encoding/json"
	"slices"

	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// Start is KubeML's TrainTask: what POST /start of a standalone job takes.
type Start struct {
	Request TrainRequest `json:"request"`
	Job     StartInfo    `json:"job"`
}

// StartInfo is KubeML's JobInfo.
type StartInfo struct {
	ID    string `json:"id"`
	State Update `json:"state"`
}

// NewStart returns what starts a job under an id, of a size: with nothing in it with
// as many functions as its task says, or, where it goes on, as it had. It shares the
// task's options.
func NewStart(id string, t *messages.TrainTask, size Update) Start {
	return Start{Request: NewTrainRequest(t), Job: StartInfo{ID: id, State: size}}
}

// DecodeStart reads the body of POST /start of the standalone job with that id: a
// Start, or a TrainRequest alone. The task is complete, and size is what the job's
// state asks for. Errors are those of DecodeTask; Invalid: another id.
func DecodeStart(id string, body []byte) (t *messages.TrainTask, size Update, err error) {
	members, err := Object("request", body)
	if err != nil {
		return nil, size, err
	}
	var request, job json.RawMessage
	for _, m := range members {
		switch m.Name {
		case "request":
			request = m.Value
		case "job":
			job = m.Value
		}
	}
	if request == nil {
		t, err = DecodeTask(body) // which knows no job
		return t, size, err
	}
	for _, m := range members {
		if m.Name != "request" && m.Name != "job" {
			return nil, size, Unknown("task", m.Name, []string{"request", "job"})
		}
	}
	if size, err = startedAs(id, job); err != nil {
		return nil, size, err
	}
	t, err = DecodeTask(request)
	return t, size, err
}

// startedAs reads KubeML's JobInfo, and returns the size that its state says.
func startedAs(id string, raw json.RawMessage) (size Update, err error) {
	if raw == nil || string(raw) == "null" {
		return size, nil
	}
	members, err := Object("job", raw)
	if err != nil {
		return size, err
	}
	for _, m := range members {
		switch {
		case m.Name == "pod", m.Name == "svc": // where KubeML runs it
		case m.Name != "id" && m.Name != "state":
			return size, Unknown("job", m.Name, []string{"id", "state"})
		case m.IsNull():
		case m.Name == "state":
			if size, err = decodeState("job.state", m.Value, 0, "parallelism", "elapsed_time", "slots"); err != nil {
				return size, err
			}
		default:
			asked, err := text("job.id", m.Value)
			if err != nil {
				return size, err
			}
			if asked != "" && asked != id {
				return size, Invalid("job.id %q: this is job %s: send the task to its own job, or leave the id out", Shown(asked), id)
			}
		}
	}
	return size, nil
}

// Health is the answer to GET /health of a standalone job.
type Health struct {
	ID          string `json:"id"`
	Phase       string `json:"phase"`       // as GET /tasks/{id} of a server has it; WAITING: for its task
	Incarnation uint64 `json:"incarnation"` // how often the job has been started; 0: not yet
	Busy        uint32 `json:"busy"`        // functions that run
}

// Update is what POST /update of a standalone job takes: KubeML's JobState, and
// beside it how many functions may run at once. nil is left as it is.
type Update struct {
	Parallelism *uint32 `json:"parallelism,omitempty"`
	Slots       *uint32 `json:"slots,omitempty"`
}

// DecodeUpdate reads an Update. Invalid: it says nothing, or something else.
func DecodeUpdate(body []byte) (Update, error) {
	u, err := decodeState("request", body, 1, "parallelism", "elapsed_time", "slots")
	if err == nil && u.Parallelism == nil && u.Slots == nil {
		err = Invalid("request: there is neither parallelism nor slots: give 1 to %d functions, or how many may run at once", task.MaxParallelism)
	}
	return u, err
}

// decodeState reads a JobState with those fields, whose parallelism is at least
// that. How long the job has run is for itself to know.
func decodeState(what string, raw json.RawMessage, least int64, known ...string) (u Update, err error) {
	members, err := Object(what, raw)
	if err != nil {
		return u, err
	}
	for _, m := range members {
		name, lo := m.Name, least
		field := &u.Parallelism
		switch {
		case !slices.Contains(known, name):
			return u, Unknown(what, name, known)
		case m.IsNull():
			continue
		case name == "elapsed_time":
			if _, err := real(what+"."+name, m.Value); err != nil {
				return u, err
			}
			continue
		case name == "slots":
			field, lo = &u.Slots, 0
		}
		n, err := Signed(what+"."+name, m.Value, lo, task.MaxParallelism)
		if err != nil {
			return u, err
		}
		value := uint32(n)
		*field = &value
	}
	return u, nil
}
