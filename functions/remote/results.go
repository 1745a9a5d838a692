package remote

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// FunctionResults is what a function answers: the body of a 200 to its
// invocation, and of POST /next/{funcId}.
type FunctionResults struct {
	ID      int     `json:"id"` // function id
	Results Results `json:"results"`
}

// Results is what a function did. What is absent or null is not known; the
// counts are then those of the whole assignment.
type Results struct {
	// Loss is the mean over the samples, in training and in validation.
	Loss *Number `json:"loss,omitempty"`
	// LossSum is the sum over the samples of a validation, exactly; it counts
	// instead of Loss.
	LossSum *Number `json:"loss_sum,omitempty"`
	Samples *int64  `json:"samples,omitempty"`
	Batches *int    `json:"batches,omitempty"`
	// Correct is how many samples of a validation were answered right; Accuracy
	// says it in percent, for functions that do not count.
	Correct  *Number                   `json:"correct,omitempty"`
	Accuracy *Number                   `json:"accuracy,omitempty"`
	Metrics  map[string]WeightedMetric `json:"metrics,omitempty"`
	// Predictions is the answer to infer.
	Predictions json.RawMessage `json:"predictions,omitempty"`
}

// WeightedMetric is a functions.Metric: its mean is Sum/Weight.
type WeightedMetric struct {
	Sum    Number `json:"sum"`
	Weight Number `json:"weight"`
}

// Number is a float64 that survives JSON bit for bit. JSON has no NaN and no
// infinity: those are written as "NaN", "+Inf" and "-Inf", and read so too.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte(`"` + text + `"`), nil
	}
	return []byte(text), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
	}
	v, err := strconv.ParseFloat(s, 64)
	*n = Number(v)
	return err
}

// ResultsOf returns an answer of function id as it is sent.
func ResultsOf(id int, task functions.Task, a functions.Answer) FunctionResults {
	r := Results{Predictions: a.Predictions}
	switch task {
	case functions.Train, functions.Val:
		r.Samples, r.Batches = &a.Samples, &a.Batches
		loss := Number(a.Loss)
		if task == functions.Val {
			r.LossSum = number(a.Loss)
			loss = Number(a.Loss / float64(a.Samples))
		}
		if !a.NoLoss {
			r.Loss = &loss
		}
		if a.HasAccuracy {
			r.Correct, r.Accuracy = number(a.Correct), number(100*a.Correct/float64(a.Samples))
		}
	}
	if len(a.Metrics) > 0 {
		r.Metrics = map[string]WeightedMetric{}
		for name, m := range a.Metrics {
			r.Metrics[name] = WeightedMetric{Sum: Number(m.Sum), Weight: Number(m.Weight)}
		}
	}
	return FunctionResults{ID: id, Results: r}
}

func number(v float64) *Number {
	n := Number(v)
	return &n
}

// Answer is what the results say of an invocation. HasOptimizer is not set: that
// the exchange knows. Rejected: a validation without a loss, an inference
// without predictions, results of another function.
func (f FunctionResults) Answer(inv functions.Invocation) (functions.Answer, error) {
	const op = "remote.results"
	r := f.Results
	if f.ID != inv.Index {
		return functions.Answer{}, fault.New(op, fault.Rejected, "the results are those of function %d, not of %d", f.ID, inv.Index)
	}
	switch inv.Task {
	case functions.Init:
		return functions.Answer{}, nil
	case functions.Infer:
		if len(r.Predictions) == 0 {
			return functions.Answer{}, fault.New(op, fault.Rejected, "the function answers no predictions")
		}
		return functions.Answer{Predictions: r.Predictions}, nil
	}
	n := len(inv.Positions)
	a := functions.Answer{Samples: int64(n), Batches: len(functions.Batches(n, inv.BatchSize))}
	if r.Samples != nil {
		a.Samples = *r.Samples
	}
	if r.Batches != nil {
		a.Batches = *r.Batches
	}
	switch {
	case inv.Task == functions.Val && r.LossSum != nil:
		a.Loss = float64(*r.LossSum)
	case inv.Task == functions.Val && r.Loss != nil:
		a.Loss = float64(*r.Loss) * float64(a.Samples)
	case inv.Task == functions.Val:
		return functions.Answer{}, fault.New(op, fault.Rejected, "the function answers no loss: validation needs loss_sum or loss")
	case r.Loss != nil:
		a.Loss = float64(*r.Loss)
	default:
		a.NoLoss = true
	}
	switch {
	case r.Correct != nil:
		a.Correct, a.HasAccuracy = float64(*r.Correct), true
	case r.Accuracy != nil:
		a.Correct, a.HasAccuracy = float64(*r.Accuracy)/100*float64(a.Samples), true
	}
	a.HasAccuracy = a.HasAccuracy && inv.Task == functions.Val
	if !a.HasAccuracy {
		a.Correct = 0
	}
	a.Metrics = metricsOf(r.Metrics)
	return a, nil
}

// metricsOf returns what a function recorded, without what has no mean, as the SDK
// leaves out what is no number.
func metricsOf(recorded map[string]WeightedMetric) map[string]functions.Metric {
	var metrics map[string]functions.Metric
	for name, m := range recorded {
		sum, weight := float64(m.Sum), float64(m.Weight)
		if mean := sum / weight; !(weight > 0) || math.IsNaN(mean) || math.IsInf(mean, 0) {
			continue
		}
		if metrics == nil {
			metrics = map[string]functions.Metric{}
		}
		metrics[name] = functions.Metric{Sum: sum, Weight: weight}
	}
	return metrics
}
