package isolate

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// fromChild is what a child says: one of these.
type fromChild struct {
	Ready  bool    `json:"ready,omitempty"`
	Create *create `json:"create,omitempty"`
	Done   *done   `json:"done,omitempty"`
	Failed *failed `json:"failed,omitempty"`
	Stacks *string `json:"stacks,omitempty"` // where it is, at any time once it was asked
}

// toChild is what a child is told: one of these.
type toChild struct {
	Run  *request `json:"run,omitempty"`
	Path string   `json:"path,omitempty"` // of the file asked for; who gets none is killed
	// Stacks asks where the function of this job is.
	Stacks string `json:"stacks,omitempty"`
}

// create asks for a file for an output.
type create struct {
	Output string `json:"output"`
	Size   int64  `json:"size"`
}

// The names of outputs.
const (
	modelOut     = "model"
	optimizerOut = "optimizer"
)

// done says that all went well.
type done struct {
	Samples      int64                `json:"samples"`
	Batches      int                  `json:"batches"`
	Loss         number               `json:"loss"`
	Correct      number               `json:"correct"`
	HasAccuracy  bool                 `json:"has_accuracy"`
	HasOptimizer bool                 `json:"has_optimizer"`
	Metrics      map[string][2]number `json:"metrics,omitempty"`
	Predictions  json.RawMessage      `json:"predictions,omitempty"`
	CRC          map[string]uint32    `json:"crc"` // of each output
}

// failed is an error.
type failed struct {
	Kind  fault.Kind `json:"kind"`
	Op    string     `json:"op"`
	Text  string     `json:"text"`
	Trace string     `json:"trace"`
}

func failedBy(err error) *failed {
	f := &failed{Kind: fault.KindOf(err), Op: "isolate.run", Text: err.Error(), Trace: fault.TraceOf(err)}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Op = e.Op
	}
	return f
}

func (f *failed) err() error {
	e := fault.New(f.Op, f.Kind, "%s", f.Text)
	e.Trace = f.Trace
	return e
}

// number is a float64 as its bits: JSON has neither NaN nor infinity.
type number uint64

func bits(x float64) number       { return number(math.Float64bits(x)) }
func (n number) float64() float64 { return math.Float64frombits(uint64(n)) }

// input is a file; one without a path is empty.
type input struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// request is an invocation.
type request struct {
	Task        functions.Task    `json:"task"`
	Function    string            `json:"function"`
	JobID       string            `json:"job"`
	Incarnation uint64            `json:"incarnation"`
	Epoch       int               `json:"epoch"`
	Round       int               `json:"round"`
	Index       int               `json:"index"`
	Attempt     int               `json:"attempt"`
	Fresh       bool              `json:"fresh,omitempty"`
	N           int               `json:"n"`
	Slot        int               `json:"slot"`
	Threads     int               `json:"threads"`
	K           int               `json:"k"`
	BatchSize   int               `json:"batch"`
	LR          number            `json:"lr"`
	Seed        uint64            `json:"seed"`
	Args        map[string]string `json:"args,omitempty"`
	Env         map[string]string `json:"env,omitempty"`

	Positions     []int64         `json:"positions,omitempty"`
	PositionsFile string          `json:"positions_file,omitempty"` // int64, little endian
	Dataset       string          `json:"dataset"`
	X             input           `json:"x"`
	Y             input           `json:"y"`
	Samples       int64           `json:"samples"`
	Infer         json.RawMessage `json:"infer,omitempty"`
	Model         input           `json:"model"`
	Optimizer     input           `json:"optimizer"`
	WantModel     bool            `json:"want_model"`
	WantOptimizer bool            `json:"want_optimizer"`

	Sabotage functions.Sabotage `json:"sabotage"`
}

// inline is how many positions go into the request itself.
const inline = 1000

// newRequest returns an invocation as a child gets it. What is only in memory is
// put into temporary files.
func newRequest(inv functions.Invocation, temps *child.Temps) (r *request, err error) {
	r = &request{
		Task: inv.Task, Function: inv.Function, JobID: inv.JobID, Incarnation: inv.Incarnation, Epoch: inv.Epoch, Round: inv.Round,
		Index: inv.Index, Attempt: inv.Attempt, Fresh: inv.Fresh, N: inv.N, Slot: inv.Slot, Threads: inv.Threads, K: inv.K, BatchSize: inv.BatchSize,
		LR: bits(inv.LR), Seed: inv.Seed, Args: inv.Args, Env: inv.Env,
		Dataset: inv.Data.Name, Samples: inv.Data.Samples, Infer: inv.Infer,
		WantModel: inv.ModelOut != nil, WantOptimizer: inv.OptimizerOut != nil, Sabotage: inv.Sabotage,
	}
	if len(inv.Positions) <= inline {
		r.Positions = inv.Positions
	} else if r.PositionsFile, err = temps.Positions(inv.Positions); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		to *input
		in functions.Input
	}{{&r.X, inv.Data.X}, {&r.Y, inv.Data.Y}, {&r.Model, inv.Model}, {&r.Optimizer, inv.Optimizer}} {
		f.to.Size = f.in.Size
		if f.to.Path, err = temps.Input(f.in); err != nil {
			return nil, err
		}
	}
	return r, nil
}
