// Package functions is the seam between the company of actors and the code
// that trains: a Runtime runs one invocation of one function, and knows nothing
// of jobs, rounds in flight, or messages.
//
// A round is a pure function, and the seam is where that holds: the same
// Invocation gives the same bits of model and optimizer state, the same loss
// and the same counts, whatever ran before or runs beside it. So an attempt
// may be repeated, run twice at once, or run somewhere else. Package
// functionstest is that promise as a test; native, fake and the other runtimes
// pass it.
package functions

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Runtime runs functions of one kind, known by name.
type Runtime interface {
	// Run runs one invocation to its end. It is safe for concurrent use; the
	// caller makes at most one call for each of its slots. Where ModelOut and
	// OptimizerOut are set and the answer says so, they hold complete state
	// dicts when Run returns nil, and are to be thrown away when it does not.
	//
	// Run returns within 1 s of the end of ctx; where context.Cause(ctx) is
	// DeadlineExceeded the function has had its time, and a runtime that can
	// tells the log where it was. Errors:
	//   - wrapping ctx.Err(): ctx ended first
	//   - NotFound: no such function here
	//   - Invalid: the invocation cannot work (a bad argument, data of another
	//     form, a label out of range); the text names value and remedy
	//   - Corrupt: the model, optimizer state or data cannot be read
	//   - UserCode: the function's own code failed; the trace says where
	//   - Unavailable: the worker crashed, or the runtime is closed
	Run(ctx context.Context, inv Invocation) (Answer, error)
	// Has reports whether Run knows the function.
	Has(function string) bool
	// Close ends what the runtime holds; Run fails afterwards. It may be
	// called again.
	Close() error
}

// Tracer is what a Runtime also is that can tell where its functions are.
type Tracer interface {
	// Stacks says where each running function of a job is right now, by its
	// index. It may take a second, and holds nobody up.
	Stacks(jobID string) map[int]string
}

// Starter is what a Runtime also is whose functions may take long to start: an
// endpoint that was scaled to zero. Until an invocation's Began is called, its
// time does not count as run time.
type Starter interface {
	// Starts reports whether invocations of the function call Began.
	Starts(function string) bool
}

// Task says what a function is to do.
type Task string

// The tasks.
const (
	Init  Task = "init"  // make the model that the job starts from
	Train Task = "train" // train one assignment
	Val   Task = "val"   // evaluate the model on positions of the test split
	Infer Task = "infer" // answer data points
)

// Invocation is all that a function may depend on. Its pure part decides the
// answer: Task, Function, Epoch, Round, Index, N, K, BatchSize, LR, Seed, Args,
// Env, Positions, Data, Infer, Model, Optimizer, and Threads. The rest (JobID, Incarnation,
// Attempt, Fresh, Slot, ModelVersion, Timeout) is for logs, for how long to wait, and for choosing what to break: no
// answer may depend on it.
type Invocation struct {
	Task        Task
	Function    string
	JobID       string
	Incarnation uint64
	Epoch       int  // from 1; 0 for Init
	Round       int  // of the epoch, from 0
	Index       int  // function id, in [0, N)
	Attempt     int  // of this assignment, from 0
	Fresh       bool // an attempt before failed for what the function did: no warm process is to run this one
	N           int  // parallelism of the round
	Slot        int  // of this host, from 0; no two running calls share one
	Threads     int  // that the function's arithmetic may use; 0 = as it likes

	K         int               // batches a round, -1 = all; the positions are cut to it already
	BatchSize int               // samples, at least 1; see Batches
	LR        float64           // learning rate
	Seed      uint64            // of this function in this round: the only source of chance
	Args      map[string]string // the user's --arg k=v
	Env       map[string]string // the user's --env K=V; native functions have none

	// Positions are rows of the split that Data holds, each in
	// [0, Data.Samples). Train takes them in this order. Init has none and may
	// look at every row.
	Positions []int64
	Data      Data            // not for Infer
	Infer     json.RawMessage // Infer only: what to answer, a JSON value
	Model     Input           // not for Init
	Optimizer Input           // Size 0 = none: start afresh

	ModelVersion uint64 // of Model: merges since init

	// Timeout is how long the caller waits before it cancels; 0: not known.
	Timeout time.Duration

	ModelOut     Output // nil = not wanted; Val writes none
	OptimizerOut Output // nil = not wanted; Train only

	// Began is called, any number of times, by a runtime that is a Starter, once
	// the function is at work; nil = nobody asks.
	Began func()

	// Warn is called, any number of times before Run returns and from one goroutine
	// at a time, with what a person should know about the function, as its name and
	// text say; nil = nobody asks. The same text may come with every invocation.
	Warn func(text string)

	Sabotage Sabotage
}

// Data is a split of a data set, as the runtime reads it: Init and Train get
// the training split, Val the test split.
type Data struct {
	Name    string // of the data set, for messages
	Digest  string // of the data set, for messages
	X       Input  // npy, C order, [samples, ...]
	Y       Input  // npy, C order, [samples]
	Samples int64
}

// Input is bytes to read: a safetensors or an npy file. The caller keeps it
// open until Run returns.
type Input struct {
	R    io.ReaderAt // safe for concurrent use
	Size int64       // bytes
	Path string      // the same bytes as a file of this machine, "" when they are not
}

// Output is where a runtime puts a state dict, in safetensors format.
type Output interface {
	// Create reserves size bytes and returns where to write exactly those.
	// Once per output. An error of it is returned by Run as it is.
	Create(size int64) (io.Writer, error)
	// Path is the file to write when another process does it, valid after
	// Create; "" when there is none. It is opened without truncating.
	Path() string
	// Attest hands on the CRC-32 (IEEE) of the whole state dict, as computed by
	// the process that wrote it, from what it meant to write. Whatever does not
	// go through the writer is attested before Run returns nil, so that who reads
	// it can tell whether these are the bytes.
	Attest(crc uint32)
}

// Answer says what an invocation did.
type Answer struct {
	Samples      int64   // consumed: len(Positions); 0 for Init and Infer
	Batches      int     // into which they were cut
	Loss         float64 // Train: mean over the samples. Val: SUM over the samples
	NoLoss       bool    // Train: the function does not tell its loss; Loss is 0
	Correct      float64 // Val: samples answered right, when HasAccuracy
	HasAccuracy  bool    // the function knows right from wrong
	HasOptimizer bool    // OptimizerOut was written

	Metrics     map[string]Metric // what the function recorded under names of its own; nil = nothing
	Predictions json.RawMessage   // Infer only: the answer, a JSON value
}

// Metric is a number that a function recorded, as sums that add up over
// functions and blocks: its mean is Sum/Weight.
type Metric struct {
	Sum    float64 // of value times samples
	Weight float64 // samples
}

// Sabotage is what --chaos asks for: to break this attempt, really.
type Sabotage struct {
	Kill   bool          // the worker ends for real (native: a panic)
	Hang   bool          // it blocks until ctx ends
	Freeze bool          // its process group is stopped (SIGSTOP) until ctx ends; native: as Hang
	Slow   time.Duration // it sleeps once, this long, and goes on
	At     float64       // when it strikes: share of the batches done before, in [0, 1)

	// Not for runtimes: the host does these.
	NaN      bool   // a NaN is written into the answer
	Corrupt  bool   // bytes of the answer are changed after it was written
	Damage   uint64 // which, when Corrupt
	DiskFull bool   // there is no room for the answer
}

// Batch returns before which batch, of batches, the sabotage strikes; -1 when
// there is nothing to do.
func (s Sabotage) Batch(batches int) int {
	if !s.Kill && !s.Hang && !s.Freeze && s.Slow <= 0 {
		return -1
	}
	return min(int(s.At*float64(batches)), max(batches-1, 0))
}
