package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// result is how a job ended, as -o json prints it. Its fields and their order
// are part of the interface; null means not measured, or nothing.
type result struct {
	JobID           string        `json:"job_id"`
	State           string        `json:"state"` // SUCCEEDED, FAILED or STOPPED
	Function        string        `json:"function"`
	Dataset         string        `json:"dataset"` // as typed
	Epochs          []epochResult `json:"epochs"`
	Accuracy        *float64      `json:"accuracy"` // percent
	ValidationLoss  *float64      `json:"validation_loss"`
	Retries         uint32        `json:"retries"`
	LostFunctions   uint32        `json:"lost_functions"`
	RejectedResults uint32        `json:"rejected_results"`
	WallS           float64       `json:"wall_s"`
	WorkerS         float64       `json:"worker_s"`
	Model           *string       `json:"model"` // URL
	Error           *string       `json:"error"`
}

type epochResult struct {
	Epoch           uint32   `json:"epoch"` // from 1
	TrainLoss       *float64 `json:"train_loss"`
	ValidationLoss  *float64 `json:"validation_loss"`
	Accuracy        *float64 `json:"accuracy"` // percent
	Parallelism     uint32   `json:"parallelism"`
	Rounds          uint32   `json:"rounds"`
	Samples         uint64   `json:"samples"` // merged
	DroppedSamples  uint64   `json:"dropped_samples"`
	DurationS       float64  `json:"duration_s"`
	Retries         uint32   `json:"retries"`
	LostFunctions   uint32   `json:"lost_functions"`
	RejectedResults uint32   `json:"rejected_results"`
}

func newResult(id string, t *messages.TrainTask, r *messages.JobResult) result {
	out := result{
		JobID: id, State: jobjson.StateName(r.GetPhase()), Function: t.GetFunctionName(), Dataset: t.GetDataset(),
		Epochs:   make([]epochResult, 0, len(r.GetEpochs())), // [], never null
		Accuracy: measured(r.Accuracy), ValidationLoss: measured(r.ValidationLoss),
		Retries: r.GetRetries(), LostFunctions: r.GetLostFunctions(), RejectedResults: r.GetRejectedResults(),
		WallS: r.GetWallS(), WorkerS: r.GetWorkerS(), Model: text(r.GetModel()), Error: text(reason(r.GetFailure())),
	}
	for _, e := range r.GetEpochs() {
		out.Epochs = append(out.Epochs, epochResult{
			Epoch: e.GetEpoch(), TrainLoss: measured(&e.TrainLoss), ValidationLoss: measured(e.ValidationLoss),
			Accuracy: measured(e.Accuracy), Parallelism: e.GetParallelism(), Rounds: e.GetRounds(),
			Samples: e.GetSamples(), DroppedSamples: e.GetDroppedSamples(), DurationS: e.GetDurationS(),
			Retries: e.GetRetries(), LostFunctions: e.GetLostFunctions(), RejectedResults: e.GetRejectedResults(),
		})
	}
	return out
}

// measured returns x unless it is unset or no number that JSON has.
func measured(x *float64) *float64 {
	if x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
		return nil
	}
	return x
}

// reason is why a job did not succeed: one line, and below it the traceback of a
// program that raised.
func reason(f *messages.Failure) string {
	return strings.TrimSpace(f.GetText() + "\n" + f.GetTrace())
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// printResult writes the result to standard output in one write: one line of
// JSON, or a summary. logs is where what the job printed is, "" for nowhere.
func (s *session) printResult(id string, t *messages.TrainTask, r *messages.JobResult, logs, format string) error {
	var b bytes.Buffer
	if format == "json" {
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(newResult(id, t, r)); err != nil {
			return err
		}
	} else {
		writeSummary(&b, id, r, logs, more(id, r))
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// writeSummary writes what a person wants to know first.
func writeSummary(b *bytes.Buffer, id string, r *messages.JobResult, logs, next string) {
	fmt.Fprintf(b, "job %s %s after %s in %s\n", id, jobjson.StateName(r.GetPhase()), count(len(r.GetEpochs()), "epoch"), seconds(r.GetWallS()))
	if r.GetEndedEarly() != "" {
		fmt.Fprintf(b, "  early     %s\n", r.GetEndedEarly())
	}
	if at := r.GetModelEpoch(); at > 0 && int(at) != len(r.GetEpochs()) {
		fmt.Fprintf(b, "  best      epoch %d\n", at)
	}
	if r.Accuracy != nil {
		fmt.Fprintf(b, "  accuracy  %.1f %%\n", r.GetAccuracy())
	}
	if r.ValidationLoss != nil {
		fmt.Fprintf(b, "  val-loss  %.3f\n", r.GetValidationLoss())
	}
	if trouble := troubles(r.GetRetries(), r.GetLostFunctions(), r.GetRejectedResults()); trouble != "" {
		fmt.Fprintf(b, "  trouble   %s\n", trouble)
	}
	if r.GetModel() != "" {
		fmt.Fprintf(b, "  model     %s\n", r.GetModel())
	}
	if logs != "" && r.GetPhase() == messages.Phase_PHASE_FAILED {
		fmt.Fprintf(b, "  log       %s\n", logs)
	}
	fmt.Fprintf(b, "  more      %s\n", next)
}

// printEnd writes the summary of a job of a server to standard output in one
// write.
func (s *session) printEnd(id string, r *messages.JobResult) error {
	var b bytes.Buffer
	next := "troupe history get --id " + id + " has each epoch"
	if r.GetPhase() == messages.Phase_PHASE_STOPPED {
		next = "troupe task resume --id " + id + " goes on"
	}
	writeSummary(&b, id, r, "troupe logs --id "+id, next)
	_, err := s.Out.Write(b.Bytes())
	return err
}

// more says what a person can do next.
func more(id string, r *messages.JobResult) string {
	switch r.GetPhase() {
	case messages.Phase_PHASE_FAILED:
		return "-v says what happens"
	case messages.Phase_PHASE_STOPPED:
		return "troupe run --resume " + id + " goes on"
	}
	return "-o json prints each epoch, -v says what happens"
}
