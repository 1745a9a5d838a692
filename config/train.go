package config

import "time"

// Train is what a training task uses where the user said nothing. Its fields
// are those of messages.TrainTask; package task joins the two and checks the
// outcome.
type Train struct {
	Epochs          uint32        `json:"epochs"`
	BatchSize       uint32        `json:"batch_size"` // samples
	LR              float64       `json:"lr"`
	MinParallelism  uint32        `json:"min_parallelism"` // functions
	K               int32         `json:"k"`               // batches per round; -1: one round an epoch
	Merge           string        `json:"merge"`
	OptimizerState  string        `json:"optimizer_state"`
	Compress        string        `json:"compress"`       // none, int8: how answers are encoded
	ValidateEvery   float64       `json:"validate_every"` // epochs; -1: only at the end
	LRScale         string        `json:"lr_scale"`       // none, sqrt, linear
	Shuffle         bool          `json:"shuffle"`
	Seed            uint64        `json:"seed"`
	Retries         uint32        `json:"retries"`          // per assignment
	MinFunctions    uint32        `json:"min_functions"`    // answers that a round needs
	FunctionTimeout time.Duration `json:"function_timeout"` // of one attempt
	Backup          bool          `json:"backup"`           // run a straggler's assignment twice
	OnBadSamples    string        `json:"on_bad_samples"`   // fail, drop
	Keep            string        `json:"keep"`             // best, last: which model becomes the result
	Priority        int32         `json:"priority"`         // higher starts first
}

// DefaultTrain returns the documented defaults.
func DefaultTrain() Train {
	return Train{
		Epochs:          5,
		BatchSize:       64,
		LR:              0.01,
		MinParallelism:  1,
		K:               16,
		Merge:           "average",
		LRScale:         "none",
		OptimizerState:  "keep",
		Compress:        "none",
		ValidateEvery:   1,
		Shuffle:         true,
		Retries:         3,
		MinFunctions:    1,
		FunctionTimeout: 30 * time.Minute,
		Backup:          true,
		OnBadSamples:    "fail",
		Keep:            "last",
	}
}
