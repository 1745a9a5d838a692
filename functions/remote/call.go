package remote

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Call is what the URL of an invocation says. All but JobURL, N, K, BatchSize
// and LR name the attempt.
type Call struct {
	Ref
	N         int     // parallelism of the round, at least 1
	K         int     // batches a round, -1 = all
	BatchSize int     // samples, at least 1
	LR        float64 // learning rate, finite
	JobURL    string  // where the exchange serves this job, without a slash at its end
}

// CallOf returns the call of an invocation.
func CallOf(inv functions.Invocation, jobURL string) Call {
	return Call{Ref: RefOf(inv), N: inv.N, K: inv.K, BatchSize: inv.BatchSize, LR: inv.LR, JobURL: jobURL}
}

// The names in the query of a function URL. Those of KubeML come first.
const (
	argTask        = "task"
	argJob         = "jobId"
	argN           = "N"
	argK           = "K"
	argFunction    = "funcId"
	argBatch       = "batchSize"
	argLR          = "lr"
	argEpoch       = "epoch"
	argRound       = "round"
	argAttempt     = "attempt"
	argIncarnation = "incarnation"
	argJobURL      = "jobUrl"
)

// URL returns the function URL: the endpoint's, whose own query is kept, with
// the call. Invalid: the endpoint is none that can be called.
func (c Call) URL(endpoint string) (string, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return "", err
	}
	q := u.Query()
	for name, value := range map[string]string{
		argTask: string(c.Task), argJob: c.Job, argN: strconv.Itoa(c.N), argK: strconv.Itoa(c.K),
		argFunction: strconv.Itoa(c.Function), argBatch: strconv.Itoa(c.BatchSize), argLR: strconv.FormatFloat(c.LR, 'g', -1, 64),
		argEpoch: strconv.Itoa(c.Epoch), argRound: strconv.Itoa(c.Round), argAttempt: strconv.Itoa(c.Attempt),
		argIncarnation: strconv.FormatUint(c.Incarnation, 10), argJobURL: c.JobURL,
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Query returns what names the attempt in the job's URLs: ParseRef reads it.
func (r Ref) Query() url.Values {
	return url.Values{
		argTask: {string(r.Task)}, argIncarnation: {strconv.FormatUint(r.Incarnation, 10)}, argEpoch: {strconv.Itoa(r.Epoch)},
		argRound: {strconv.Itoa(r.Round)}, argAttempt: {strconv.Itoa(r.Attempt)},
	}
}

// ParseCall reads the query of a function URL. Invalid, naming the argument:
// one that is missing or out of range.
func ParseCall(q url.Values) (Call, error) {
	c := Call{}
	c.Job, c.Task, c.JobURL = q.Get(argJob), functions.Task(q.Get(argTask)), strings.TrimRight(q.Get(argJobURL), "/")
	switch {
	case !knownTask(c.Task):
		return c, badCall(argTask, q.Get(argTask), "give init, train, val or infer")
	case c.Job == "":
		return c, badCall(argJob, "", "give the id of the job")
	}
	if _, err := parseEndpoint(c.JobURL); err != nil {
		return c, badCall(argJobURL, c.JobURL, "give the URL of the job, with http or https")
	}
	var err error
	if c.Incarnation, err = strconv.ParseUint(q.Get(argIncarnation), 10, 64); err != nil {
		return c, badCall(argIncarnation, q.Get(argIncarnation), "give a whole number from 0")
	}
	if c.LR, err = strconv.ParseFloat(q.Get(argLR), 64); err != nil || math.IsNaN(c.LR) || math.IsInf(c.LR, 0) {
		return c, badCall(argLR, q.Get(argLR), "give a finite number")
	}
	for _, arg := range []struct {
		name  string
		value *int
		least int
	}{
		{argN, &c.N, 1},
		{argK, &c.K, -1},
		{argFunction, &c.Function, 0},
		{argBatch, &c.BatchSize, 1},
		{argEpoch, &c.Epoch, 0},
		{argRound, &c.Round, 0},
		{argAttempt, &c.Attempt, 0},
	} {
		if *arg.value, err = strconv.Atoi(q.Get(arg.name)); err != nil || *arg.value < arg.least {
			return c, badCall(arg.name, q.Get(arg.name), "give a whole number from "+strconv.Itoa(arg.least))
		}
	}
	return c, nil
}

func badCall(name, value, remedy string) error {
	return fault.New("remote.call", fault.Invalid, "argument %s=%.100q of the function URL: %s", name, value, remedy)
}

func knownTask(t functions.Task) bool {
	return t == functions.Init || t == functions.Train || t == functions.Val || t == functions.Infer
}

// parseEndpoint reads the URL of an endpoint or of a job. Invalid: it is none
// that can be called.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fault.New("remote.url", fault.Invalid, "%.200q is no URL of an endpoint: give one such as http://127.0.0.1:8000/", endpoint)
	}
	return u, nil
}
