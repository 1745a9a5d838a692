package remote

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

const (
	// resultsMost is how long results may be; what a function of ours says is
	// some hundred bytes.
	resultsMost = 4 << 20
	// parting is how long a client has to take the answer to a request that was
	// cut off.
	parting = time.Second
)

// exchanged is a request that names an open attempt.
type exchanged struct {
	e *Exchange
	w http.ResponseWriter
	r *http.Request
	a *attempt
	// leave takes the request from those that the attempt cuts off with its end;
	// it may be called again.
	leave func()
}

// serve finds the attempt that a request is about, and has it answered.
func (e *Exchange) serve(job string, w http.ResponseWriter, r *http.Request, answer func(*exchanged) error) {
	w.Header().Set("Cache-Control", "no-store")
	err := func() error {
		a, err := e.find(job, r)
		if err != nil {
			return err
		}
		leave, ok := a.enter(http.NewResponseController(w))
		if !ok {
			return errOver
		}
		defer leave()
		if err := a.began(r.Context()); err != nil {
			return err
		}
		return answer(&exchanged{e, w, r, a, leave})
	}()
	switch {
	case err == nil:
	case errors.Is(err, errStruck):
		panic(http.ErrAbortHandler) // as a worker that dies would do
	default:
		refuse(w, err)
	}
}

func (x *exchanged) assignment() error {
	assignment := AssignmentOf(x.a.inv)
	if x.r.URL.Query().Has("ranges") {
		assignment.Ranges = rangesOf(x.a.inv.Positions)
	}
	return answerJSON(x.w, assignment)
}

func (x *exchanged) data() error {
	if x.a.ref.Task == functions.Infer {
		return fault.New("remote.data", fault.NotFound, "there is no data set to infer: what to answer is the body of the invocation")
	}
	rows, err := x.a.rows()
	if err != nil {
		return err
	}
	return rows.serve(x.w, x.r, "application/zip")
}

func (x *exchanged) model() error {
	if x.a.models == nil {
		return fault.New("remote.model", fault.NotFound, "there is no model yet: the function makes it (task init)")
	}
	return x.a.models.serve(x.w, x.r, safetensors)
}

func (x *exchanged) optimizer() error {
	if x.a.optimizers == nil {
		return fault.New("remote.optimizer", fault.NotFound, "there is no optimizer state to start from: the function starts with none")
	}
	return x.a.optimizers.serve(x.w, x.r, safetensors)
}

const safetensors = "application/octet-stream"

func (x *exchanged) putModel() error     { return x.put(x.a.modelPut) }
func (x *exchanged) putOptimizer() error { return x.put(x.a.statePut) }

// next takes the results of a function, none of them where the body is empty,
// which settles its attempt, and waits for the merge.
func (x *exchanged) next() error {
	const op = "remote.next"
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, resultsMost))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return statusError{fault.New(op, fault.Invalid, "results are at most %d bytes", resultsMost), http.StatusRequestEntityTooLarge}
	case err != nil:
		return fault.New(op, fault.Invalid, "the results broke off: %w", err)
	}
	results := FunctionResults{ID: x.a.ref.Function}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &results); err != nil {
			return fault.New(op, fault.Invalid, `the results are not {"id": …, "results": {…}}: %w`, err)
		}
	}
	x.leave() // nothing is read any more, and the wait for the merge outlasts the attempt
	if err := x.a.finish(x.r.Context(), results); err != nil {
		return err
	}
	if x.a.ref.Task == functions.Train {
		if err := x.e.next(x.r.Context(), x.a.ref); err != nil {
			refuseAs(x.w, http.StatusInternalServerError, err)
			return nil
		}
	}
	return answerJSON(x.w, struct {
		Merge string `json:"merge"`
	}{"succeeded"})
}

func answerJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone
	return nil
}

// refuse answers a request that was not served.
func refuse(w http.ResponseWriter, err error) {
	status := httpfault.Status(fault.KindOf(err))
	if s, ok := errors.AsType[statusError](err); ok {
		status = s.status
	}
	refuseAs(w, status, err)
}

func refuseAs(w http.ResponseWriter, status int, err error) {
	f := FailureOf(err)
	f.Code = status
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f) // a client that has gone
}

// statusError is an error with another status than its kind has.
type statusError struct {
	error
	status int
}

// Unwrap returns the error with its kind.
func (s statusError) Unwrap() error { return s.error }

func noSuchPath(w http.ResponseWriter, r *http.Request) {
	refuse(w, fault.New("remote.path", fault.NotFound, "there is no %.200q here", r.URL.Path))
}

func wrongMethod(w http.ResponseWriter, r *http.Request) {
	refuse(w, statusError{
		fault.New("remote.path", fault.Invalid, "%.20s is no method of %.200q", r.Method, r.URL.Path), http.StatusMethodNotAllowed,
	})
}
