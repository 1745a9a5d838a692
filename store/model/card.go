package model

import (
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Card says what a model is and how it came about.
type Card struct {
	ID          string `json:"id"`          // of the job
	Incarnation uint64 `json:"incarnation"` // of the job that saved it
	Function    string `json:"function"`    // by name
	// FunctionVersion is that of a user's program, see store/function; empty
	// for a built-in function.
	FunctionVersion string            `json:"function_version,omitempty"`
	Args            map[string]string `json:"args,omitempty"`  // that the function was given
	Dataset         string            `json:"dataset"`         // by name
	DatasetDigest   string            `json:"dataset_digest"`  // see store/dataset
	Epochs          int               `json:"epochs"`          // trained
	Accuracy        *float64          `json:"accuracy"`        // percent; null: not measured
	ValidationLoss  *float64          `json:"validation_loss"` // mean over the test samples; null: not measured
	TrainLoss       *float64          `json:"train_loss"`      // mean over the samples of the epoch that the model is of; null: not measured
	Parallelism     int               `json:"parallelism"`     // of that epoch
	Merge           string            `json:"merge"`           // strategy, as asked for
	Seed            uint64            `json:"seed"`
	Bytes           int64             `json:"bytes"`   // of the safetensors file; set by Save
	SHA256          string            `json:"sha256"`  // of the same, lower-case hexadecimal; set by Save
	Created         time.Time         `json:"created"` // by the clock of the job
}

// checkID refuses ids that could not be told apart in a key: they are letters,
// digits, "_" and "-", at most 64.
func checkID(op, id string) error {
	if id == "" || len(id) > 64 {
		return fault.New(op, fault.Invalid, "model id %.70q has %d characters, want 1 to 64", id, len(id))
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return fault.New(op, fault.Invalid, "model id %q has the character %q: want letters, digits, _ and -", id, r)
		}
	}
	return nil
}
