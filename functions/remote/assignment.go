package remote

import (
	"github.com/troupe-ml/troupe/functions"
)

// Assignment is what GET /assignment/{funcId} answers: all of an invocation but
// its rows and tensors. Where the same number is in the function URL too, this
// one counts.
type Assignment struct {
	Task        functions.Task    `json:"task"`
	Function    string            `json:"function"` // its key in the job's company
	Job         string            `json:"job"`
	Incarnation uint64            `json:"incarnation"`
	Epoch       int               `json:"epoch"` // from 1; 0 for init
	Round       int               `json:"round"` // from 0
	Func        int               `json:"func"`  // function id, in [0, n)
	Attempt     int               `json:"attempt"`
	Fresh       bool              `json:"fresh,omitempty"` // the function failed at this assignment before by its own doing: no warm process is to run it
	N           int               `json:"n"`
	K           int               `json:"k"` // -1 = all
	Batch       int               `json:"batch"`
	LR          float64           `json:"lr"`
	Seed        uint64            `json:"seed"` // all 64 bits count
	Args        map[string]string `json:"args,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Threads     int               `json:"threads"` // 0 = as it likes

	Dataset       string `json:"dataset,omitempty"`
	DatasetDigest string `json:"dataset_digest,omitempty"`
	// Samples is how many rows /data/{funcId} gives: those of the assignment in
	// training order, for init the whole split; 0 for infer, which has no /data.
	Samples int64 `json:"samples"`
	// Ranges are the rows of the split that those are, as runs [lo, hi) in
	// training order. Only with ?ranges=1: a shuffled assignment has one for
	// almost every row.
	Ranges [][2]int64 `json:"ranges,omitempty"`

	ModelVersion  uint64 `json:"model_version"` // merges since init
	HasModel      bool   `json:"has_model"`     // GET /model has one: all but init
	HasOptimizer  bool   `json:"has_optimizer"` // GET /optimizer/{funcId} has a state to start from
	WantModel     bool   `json:"want_model"`    // PUT /model/{funcId} is part of the answer
	WantOptimizer bool   `json:"want_optimizer"`
}

// AssignmentOf returns the assignment of an invocation, without Ranges.
func AssignmentOf(inv functions.Invocation) Assignment {
	a := Assignment{
		Task: inv.Task, Function: inv.Function, Job: inv.JobID, Incarnation: inv.Incarnation, Epoch: inv.Epoch, Round: inv.Round,
		Func: inv.Index, Attempt: inv.Attempt, Fresh: inv.Fresh, N: inv.N, K: inv.K, Batch: inv.BatchSize, LR: inv.LR, Seed: inv.Seed,
		Args: inv.Args, Env: inv.Env, Threads: inv.Threads,
		Dataset: inv.Data.Name, DatasetDigest: inv.Data.Digest, Samples: int64(len(inv.Positions)),
		ModelVersion: inv.ModelVersion, HasModel: inv.Task != functions.Init, HasOptimizer: inv.Optimizer.Size > 0,
		WantModel: inv.ModelOut != nil, WantOptimizer: inv.OptimizerOut != nil,
	}
	if inv.Task == functions.Init {
		a.Samples = inv.Data.Samples
	}
	return a
}

// rangesOf returns positions as runs [lo, hi).
func rangesOf(positions []int64) [][2]int64 {
	var runs [][2]int64
	for _, p := range positions {
		if last := len(runs) - 1; last >= 0 && runs[last][1] == p {
			runs[last][1]++
			continue
		}
		runs = append(runs, [2]int64{p, p + 1})
	}
	return runs
}
