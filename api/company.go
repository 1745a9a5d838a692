package api

import (
	"context"
	"encoding/json"
	"io"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Company is the node behind the API. Errors are of package fault: their kind
// decides the status of the response. All methods are safe for concurrent use.
type Company interface {
	Jobs
	Catalogs

	// Infer has the function that trained a model answer data. NotFound,
	// Invalid, UserCode, Unavailable.
	Infer(ctx context.Context, model string, data json.RawMessage) (json.RawMessage, error)
	// Cluster says which nodes there are.
	Cluster(ctx context.Context) ([]Node, error)
	// Ready says why the node cannot take jobs, nil if it can.
	Ready() error
}

// Jobs is what the API does to jobs.
type Jobs interface {
	// SubmitJob queues a job, whose function and data set are named as the store
	// knows them: paths are not for the API. A key that was used before gives
	// the same job again; the empty key is none. The job survives a crash of the
	// node once this returns. Invalid, NotFound, Unavailable.
	SubmitJob(ctx context.Context, key string, task *messages.TrainTask) (id string, warnings []string, err error)
	// StopJob, ResumeStoredJob and ResizeJob are accepted once they return, and
	// survive a crash of the node. NotFound; Conflict: the job has ended, runs,
	// or keeps its parallelism; Invalid.
	StopJob(ctx context.Context, id, reason string) error
	// StopLife is StopJob for who has seen a job in a life (JobView): Conflict
	// also where it was resumed since, so that a stop which comes late, or twice,
	// stops nothing else.
	StopLife(ctx context.Context, id, reason string, life uint64) error
	// ResumeStoredJob goes on with n functions; 0: with as many as it had.
	ResumeStoredJob(ctx context.Context, id string, n uint32) error
	ResizeJob(ctx context.Context, id string, n uint32) error
	// RunningJobs returns those that have not ended, oldest first.
	RunningJobs(ctx context.Context) ([]*messages.JobView, error)
	// Job returns one, ended or not. NotFound.
	Job(ctx context.Context, id string) (*messages.JobView, error)
	// AllJobs returns all that the store has, oldest first.
	AllJobs(ctx context.Context) ([]*messages.JobView, error)
	// DeleteJob forgets a job that has ended: its history and logs, not its
	// model. NotFound; Conflict: it has not ended.
	DeleteJob(ctx context.Context, id string) error
	// Events calls on with events after a cursor, first old ones, then new ones
	// as they come, until ctx ends, on fails, or, if job is not empty, that job
	// has ended. The empty cursor: from the first of a job; for all jobs, new
	// ones only. Where some are gone that the cursor has not seen, on first gets
	// an Event that is a Reset.
	Events(ctx context.Context, job, after string, on func(Event) error) error
	// Log writes what functions of a job have printed, each line behind
	// "<function>| "; with follow also what they print, until the job has ended.
	// Function -1 is all of them. NotFound.
	Log(ctx context.Context, id string, function int, follow bool, w io.Writer) error
	// Stacks says where each running function of a job is right now. NotFound.
	Stacks(ctx context.Context, id string) (string, error)
}

// Event is an event of a job, and the cursor that comes after it:
// "<job>:<incarnation>:<seq>", true on every node and after a restart.
type Event struct {
	Cursor string
	Event  *messages.JobEvent // nil for a Reset
	Reset  bool               // events before this one are gone
}

// Catalogs is what the API does to what jobs need and leave.
type Catalogs interface {
	Functions(ctx context.Context) ([]Function, error) // built-in ones first
	Function(ctx context.Context, name string) (Function, error)
	// CreateFunction imports a program of this machine under a name, or notes
	// where endpoints run it. Invalid; Conflict: the name is there and replace is
	// false, or built in.
	CreateFunction(ctx context.Context, name string, from FunctionSource, replace bool) (Function, error)
	// DeleteFunction, DeleteDataset: NotFound; Conflict while a job that has not
	// ended uses it, or for a built-in one.
	DeleteFunction(ctx context.Context, name string) error

	Datasets(ctx context.Context) ([]Dataset, error)
	Dataset(ctx context.Context, name string) (Dataset, error)
	// CreateDataset imports a file or folder of this machine under a name, all or
	// nothing, and reads it as how says. The same content again changes nothing.
	// Invalid: what it holds, too, or the name of a built-in one; Conflict: the
	// name is there with other contents.
	CreateDataset(ctx context.Context, name, path string, how dataset.Options) (Dataset, error)
	DeleteDataset(ctx context.Context, name string) error

	Models(ctx context.Context) ([]Model, error)
	// OpenModel opens the safetensors file of a model, and says its length.
	OpenModel(ctx context.Context, id string) (io.ReadCloser, int64, error)
	DeleteModel(ctx context.Context, id string) error
}

// Function is a function that jobs can name.
type Function struct {
	Name    string   `json:"name"`
	Runtime string   `json:"runtime"`           // native, python or remote
	Version string   `json:"version,omitempty"` // none for a built-in one
	Bytes   int64    `json:"bytes,omitempty"`   // of its code
	URLs    []string `json:"urls,omitempty"`    // of its endpoints: those of a remote one
}

// FunctionSource is what a function is created from: a program, or the endpoints
// that run it. One of the two is set.
type FunctionSource struct {
	Path   string   // of a file, or a folder with main.py, of this machine
	Called string   // what errors call that; empty: the path
	URLs   []string // http or https
}

// FunctionURLs is how endpoints are sent: one, or several.
type FunctionURLs struct {
	URL  string   `json:"url,omitempty"`
	URLs []string `json:"urls,omitempty"`
}

// Dataset is a data set that jobs can name, with KubeML's field names.
type Dataset struct {
	Name         string `json:"name"`
	TrainSetSize int64  `json:"train_set_size"` // samples
	TestSetSize  int64  `json:"test_set_size"`
	Digest       string `json:"digest"`
	// Warnings are about what it holds, such as values that are no numbers.
	Warnings []string `json:"warnings,omitempty"`
	BuiltIn  bool     `json:"built_in,omitempty"`
}

// Model is a trained model.
type Model struct {
	ID              string            `json:"id"` // of its job
	Function        string            `json:"function_name"`
	FunctionVersion string            `json:"function_version,omitempty"`
	Args            map[string]string `json:"args,omitempty"`
	Dataset         string            `json:"dataset"`
	DatasetDigest   string            `json:"dataset_digest"`
	Epochs          int               `json:"epochs"`
	Accuracy        *float64          `json:"accuracy"` // percent
	ValidationLoss  *float64          `json:"validation_loss"`
	TrainLoss       *float64          `json:"train_loss"`  // of the epoch that it is of
	Parallelism     int               `json:"parallelism"` // in that epoch
	Merge           string            `json:"merge"`
	Seed            uint64            `json:"seed"`
	Bytes           int64             `json:"bytes"` // of the safetensors file
	SHA256          string            `json:"sha256"`
	Created         string            `json:"created"` // RFC 3339
	Model           string            `json:"model"`   // URL in the store
}

// Node is a node of the company.
type Node struct {
	Name    string            `json:"name"`
	Address string            `json:"address,omitempty"`
	Slots   uint32            `json:"slots"` // usable
	Busy    uint32            `json:"busy"`  // of them, that jobs have
	Leader  bool              `json:"leader"`
	Version string            `json:"version"`
	Labels  map[string]string `json:"labels,omitempty"`
	Roles   []string          `json:"roles,omitempty"`
	// SharesStore says that it works on the bucket itself, and not through the node
	// that leads.
	SharesStore bool `json:"shares_store"`
	// Alive is false for a node that does not answer, and has not been given up.
	Alive    bool   `json:"alive"`
	LastSeen string `json:"last_seen,omitempty"` // RFC 3339, when it last answered
	// Leaving is true for a node that is about to go, and gets nothing new to run.
	Leaving bool `json:"leaving,omitempty"`
}
