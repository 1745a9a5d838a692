package jobjson

import (
	"math"
	"strings"

	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// Epoch is an epoch of a job's history. null: not measured.
type Epoch struct {
	Epoch            uint32             `json:"epoch" doc:"from 1"`
	TrainLoss        *float64           `json:"train_loss"`
	ValidationLoss   *float64           `json:"validation_loss"`
	Accuracy         *float64           `json:"accuracy" doc:"percent"`
	Parallelism      uint32             `json:"parallelism"`
	Rounds           uint32             `json:"rounds"`
	Samples          uint64             `json:"samples" doc:"merged"`
	DroppedSamples   uint64             `json:"dropped_samples"`
	DurationS        float64            `json:"duration_s"`
	TrainingS        float64            `json:"training_s" doc:"of it, without validation"`
	Retries          uint32             `json:"retries"`
	LostFunctions    uint32             `json:"lost_functions"`
	RejectedResults  uint32             `json:"rejected_results"`
	Backups          uint32             `json:"backups"`
	RoundParallelism []uint32           `json:"round_parallelism,omitempty"`
	FreshOptimizers  []uint32           `json:"fresh_optimizers,omitempty"`
	Metrics          map[string]float64 `json:"metrics,omitempty" doc:"what functions logged, mean over samples"`
}

func newEpoch(e *messages.EpochRecord) Epoch {
	return Epoch{
		Epoch: e.GetEpoch(), TrainLoss: measured(&e.TrainLoss), ValidationLoss: measured(e.ValidationLoss), Accuracy: measured(e.Accuracy),
		Parallelism: e.GetParallelism(), Rounds: e.GetRounds(), Samples: e.GetSamples(), DroppedSamples: e.GetDroppedSamples(),
		DurationS: finite(e.GetDurationS()), TrainingS: finite(e.GetTrainingS()), Retries: e.GetRetries(), LostFunctions: e.GetLostFunctions(),
		RejectedResults: e.GetRejectedResults(), Backups: e.GetBackups(),
		RoundParallelism: e.GetRoundParallelism(), FreshOptimizers: e.GetFreshOptimizers(), Metrics: finiteOnes(e.GetMetrics()),
	}
}

func newEpochs(records []*messages.EpochRecord) []Epoch {
	epochs := make([]Epoch, 0, len(records)) // [], never null
	for _, r := range records {
		epochs = append(epochs, newEpoch(r))
	}
	return epochs
}

func (e Epoch) record() *messages.EpochRecord {
	return &messages.EpochRecord{
		Epoch: e.Epoch, TrainLoss: orNaN(e.TrainLoss), ValidationLoss: e.ValidationLoss, Accuracy: e.Accuracy,
		Parallelism: e.Parallelism, Rounds: e.Rounds, Samples: e.Samples, DroppedSamples: e.DroppedSamples,
		DurationS: e.DurationS, TrainingS: e.TrainingS, Retries: e.Retries, LostFunctions: e.LostFunctions,
		RejectedResults: e.RejectedResults, Backups: e.Backups,
		RoundParallelism: e.RoundParallelism, FreshOptimizers: e.FreshOptimizers, Metrics: e.Metrics,
	}
}

func records(epochs []Epoch) []*messages.EpochRecord {
	var records []*messages.EpochRecord
	for _, e := range epochs {
		records = append(records, e.record())
	}
	return records
}

// Result is how a job ended, as `troupe run -o json` prints it.
type Result struct {
	JobID           string   `json:"job_id"`
	State           string   `json:"state" doc:"SUCCEEDED, FAILED or STOPPED"`
	Function        string   `json:"function"`
	Dataset         string   `json:"dataset"`
	Epochs          []Epoch  `json:"epochs"`
	Accuracy        *float64 `json:"accuracy" doc:"the last measured, percent"`
	ValidationLoss  *float64 `json:"validation_loss"`
	Retries         uint32   `json:"retries"`
	LostFunctions   uint32   `json:"lost_functions"`
	RejectedResults uint32   `json:"rejected_results"`
	WallS           float64  `json:"wall_s"`
	WorkerS         float64  `json:"worker_s"`
	Model           *string  `json:"model" doc:"URL"`
	Error           *string  `json:"error"`
}

// NewResult returns how a job ended.
func NewResult(id string, t *messages.TrainTask, r *messages.JobResult) *Result {
	return &Result{
		JobID: id, State: StateName(r.GetPhase()), Function: t.GetFunctionName(), Dataset: t.GetDataset(),
		Epochs: newEpochs(r.GetEpochs()), Accuracy: measured(r.Accuracy), ValidationLoss: measured(r.ValidationLoss),
		Retries: r.GetRetries(), LostFunctions: r.GetLostFunctions(), RejectedResults: r.GetRejectedResults(),
		WallS: finite(r.GetWallS()), WorkerS: finite(r.GetWorkerS()), Model: unlessEmpty(r.GetModel()), Error: unlessEmpty(reason(r.GetFailure())),
	}
}

func (r *Result) result() *messages.JobResult {
	if r == nil {
		return nil
	}
	out := &messages.JobResult{
		Phase: phase(r.State), Epochs: records(r.Epochs), Accuracy: r.Accuracy, ValidationLoss: r.ValidationLoss,
		Retries: r.Retries, LostFunctions: r.LostFunctions, RejectedResults: r.RejectedResults, WallS: r.WallS, WorkerS: r.WorkerS,
	}
	if r.Model != nil {
		out.Model = *r.Model
	}
	if r.Error != nil {
		out.Failure = wire.Failure(Invalid("%s", *r.Error))
		out.Failure.Kind, out.Failure.Op = messages.FailureKind_FAILURE_KIND_UNSPECIFIED, ""
	}
	return out
}

// reason is why a job did not succeed: a line, and below it the traceback of a
// program that raised.
func reason(f *messages.Failure) string {
	return strings.TrimSpace(f.GetText() + "\n" + f.GetTrace())
}

// StateName returns SUCCEEDED for PHASE_SUCCEEDED, and so on.
func StateName(p messages.Phase) string { return strings.TrimPrefix(p.String(), "PHASE_") }

// phase is the phase of that name, PHASE_UNSPECIFIED for one of a later version.
func phase(name string) messages.Phase {
	return messages.Phase(messages.Phase_value["PHASE_"+name])
}

// measured returns x unless it is unset or no number that JSON has.
func measured(x *float64) *float64 {
	if x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
		return nil
	}
	return x
}

// finite returns x, or 0 where JSON has no number for it.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func finiteOnes(values map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, x := range values {
		if measured(&x) != nil {
			out[name] = x
		}
	}
	return out
}

func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
