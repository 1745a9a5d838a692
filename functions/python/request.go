package python

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/troupe-ml/troupe/functions"
)

type toWorker struct {
	Run runRequest `json:"run"`
}

// runRequest is an invocation as a worker gets it.
type runRequest struct {
	Task     functions.Task    `json:"task"`
	Function string            `json:"function"`
	Job      string            `json:"job"`
	Epoch    int               `json:"epoch"`
	Round    int               `json:"round"`
	Index    int               `json:"index"`
	Attempt  int               `json:"attempt"`
	N        int               `json:"n"`
	K        int               `json:"k"`
	Batch    int               `json:"batch"`
	LR       float64           `json:"lr"`
	Seed     uint64            `json:"seed"`
	Args     map[string]string `json:"args"`
	Env      map[string]string `json:"env"`

	Positions     []int64 `json:"positions,omitempty"`
	PositionsFile string  `json:"positions_file,omitempty"` // int64, little endian
	Dataset       string  `json:"dataset"`
	X             string  `json:"x"`
	Y             string  `json:"y"`
	Samples       int64   `json:"samples"`

	Model         *string         `json:"model"`
	Optimizer     *string         `json:"optimizer"`
	WantModel     bool            `json:"want_model"`
	WantOptimizer bool            `json:"want_optimizer"`
	Data          json.RawMessage `json:"data,omitempty"` // of Infer
	GPU           *int            `json:"gpu"`
	Sabotage      sabotage        `json:"sabotage"`
}

// sabotage says before which batches something strikes, -1 = none. A worker
// announces those batches, and waits at them.
type sabotage struct {
	KillAtBatch int     `json:"kill_at_batch"`
	HangAtBatch int     `json:"hang_at_batch"`
	SlowAtBatch int     `json:"slow_at_batch"`
	SlowSeconds float64 `json:"slow_s"`
}

// inline is how many positions go into the request itself.
const inline = 1000

func (a *attempt) request() (m toWorker, err error) {
	inv := a.inv
	r := &m.Run
	*r = runRequest{
		Task: inv.Task, Function: inv.Function, Job: inv.JobID, Epoch: inv.Epoch, Round: inv.Round, Index: inv.Index, Attempt: inv.Attempt,
		N: inv.N, K: inv.K, Batch: inv.BatchSize, LR: inv.LR, Seed: inv.Seed, Args: inv.Args, Env: inv.Env,
		Dataset: inv.Data.Name, Samples: inv.Data.Samples, Data: inv.Infer,
		WantModel: inv.ModelOut != nil, WantOptimizer: inv.OptimizerOut != nil, Sabotage: a.sabotage(),
	}
	if a.rt.gpus > 0 {
		gpu := inv.Slot % a.rt.gpus
		r.GPU = &gpu
	}
	if len(inv.Positions) <= inline {
		r.Positions = inv.Positions
	} else if r.PositionsFile, err = a.temps.Positions(inv.Positions); err != nil {
		return m, err
	}
	if r.X, err = a.temps.Input(inv.Data.X); err != nil {
		return m, err
	}
	if r.Y, err = a.temps.Input(inv.Data.Y); err != nil {
		return m, err
	}
	if r.Model, err = a.optional(inv.Model); err != nil {
		return m, err
	}
	r.Optimizer, err = a.optional(inv.Optimizer)
	return m, err
}

func (a *attempt) optional(in functions.Input) (*string, error) {
	path, err := a.temps.Input(in)
	if err != nil || path == "" {
		return nil, err
	}
	return &path, nil
}

func (a *attempt) sabotage() sabotage {
	s := sabotage{KillAtBatch: -1, HangAtBatch: -1, SlowAtBatch: -1}
	if a.inv.Task != functions.Train && a.inv.Task != functions.Val {
		return s // strikes before the request is sent
	}
	at := a.inv.Sabotage.Batch(len(functions.Batches(len(a.inv.Positions), a.inv.BatchSize)))
	switch {
	case a.inv.Sabotage.Kill:
		s.KillAtBatch = at
	case a.inv.Sabotage.Hang, a.inv.Sabotage.Freeze: // where it waits it is stopped
		s.HangAtBatch = at
	case a.inv.Sabotage.Slow > 0:
		s.SlowAtBatch, s.SlowSeconds = at, a.inv.Sabotage.Slow.Seconds()
	}
	return s
}

// number is a float64 that may be none: JSON has no NaN and no infinity, so
// those come as text, or as null.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = number(math.NaN())
		return nil
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
	}
	v, err := strconv.ParseFloat(s, 64)
	*n = number(v)
	return err
}
