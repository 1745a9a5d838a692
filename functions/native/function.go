package native

import (
	"context"
	"math/rand/v2"
	"regexp"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Function is training code in Go, under a name. The runtime does the rest: it
// reads rows, cuts batches, carries weights and optimizer state in and out,
// stops between batches when the context ends, and turns a panic into an error
// with its stack.
//
// Init and Open are called for every invocation, at once from several
// goroutines: they must not share what they change, and must not depend on
// anything but the Call. Code that starts goroutines recovers their panics
// itself; nobody else can.
type Function struct {
	Name string // letters, digits, '.', '_', '-'; at most 64
	Args []Arg  // what --arg may set; anything else is refused

	// Init makes the model that a job starts from: it names the tensors of
	// c.Model, in order, and fills them. It may look at every row, c.Rows.
	Init func(c *Call) error
	// Open prepares to train or validate: it takes the tensors it needs out of
	// c.Model and, to train, c.Optimizer.
	Open func(c *Call) (Model, error)

	// NoAccuracy says that validation knows a loss but no right and wrong:
	// Score.Correct is ignored, and the history shows no accuracy.
	NoAccuracy bool
}

// Model is a function at work on one invocation, in one goroutine. An error
// that has a kind keeps it (use NewInvalid for data that cannot work); any
// other is the failure of the user's code.
type Model interface {
	// Train takes one step on a batch, changing the tensors that Open took, and
	// returns the mean loss over the batch.
	Train(b Batch) (loss float64, err error)
	// Validate evaluates a batch and changes nothing. A sample's share must not
	// depend on which others are in its batch.
	Validate(b Batch) (Score, error)
}

// Predictor is a Model that can answer data points, too: task Infer.
type Predictor interface {
	// Predict returns what JSON will show for each row of a batch, whose labels
	// mean nothing. It changes nothing of the model.
	Predict(b Batch) (predictions []any, err error)
}

// Score is what validation found in a batch.
type Score struct {
	Loss    float64 // SUM over the samples
	Correct int     // samples answered right
}

// Batch is some rows of a split. Its slices are the callee's until it returns:
// it may change them, and must not keep them.
type Batch struct {
	Index     int       // in the assignment, from 0
	N         int       // rows, at least 1
	X         []float32 // [N, Features], C order
	Y         []int64   // [N]
	Features  int
	Positions []int64 // [N] row numbers in the split, for messages; not to be changed
}

// Row returns the features of row i, in [0, N). It shares X.
func (b Batch) Row(i int) []float32 { return b.X[i*b.Features : (i+1)*b.Features] }

// Call is one invocation, as a Function sees it. It ends with the invocation.
type Call struct {
	Task      functions.Task // Init, Train, Val or Infer
	Epoch     int            // from 1; 0 for Init
	Round     int            // of the epoch, from 0
	Index     int            // function id, in [0, N)
	N         int            // parallelism of the round
	Threads   int            // that arithmetic may use; 0 = as it likes
	BatchSize int
	LR        float64
	Args      Args
	Rows      *Rows      // the split: training rows; for Val test rows, for Infer the points to answer
	Rand      *rand.Rand // the only source of chance, seeded by the invocation

	Model     *State // empty for Init, fixed after
	Optimizer *State // empty when there was none; written back by Train alone

	ctx context.Context
}

// Context ends when the invocation is no longer wanted. The runtime looks at it
// between batches; code that takes long over one batch should look too, and
// must return within 1 s of its end.
func (c *Call) Context() context.Context { return c.ctx }

// NewInvalid returns an error that says: this cannot work, however often it is
// tried. The text should name the value and the remedy.
func NewInvalid(format string, args ...any) error {
	return fault.New("native.function", fault.Invalid, format, args...)
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (f Function) check() error {
	switch {
	case !nameForm.MatchString(f.Name):
		return fault.New("native.new", fault.Invalid,
			"function name %q: use 1 to 64 letters, digits, '.', '_', '-', the first a letter or digit", f.Name)
	case f.Init == nil || f.Open == nil:
		return fault.New("native.new", fault.Invalid, "function %q lacks Init or Open", f.Name)
	}
	return checkArgs(f.Name, f.Args)
}
