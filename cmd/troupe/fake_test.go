package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// fakeCompany plays one job. Where endless is set, the job ends by StopJob
// alone.
type fakeCompany struct {
	events   []*messages.JobEvent
	result   *messages.JobResult
	warnings []string
	startErr error // of StartJob
	watchErr error // of WatchJob, once all events are shown
	logs     string
	closeErr error
	endless  bool
	deaf     bool   // StopJob does not end it
	watched  func() // called when all events are shown

	mu      sync.Mutex // guards the rest
	log     *zap.Logger
	node    config.Node
	task    *messages.TrainTask
	stopped chan string // reason
	started int         // companies
	closed  int
}

func (c *fakeCompany) start(log *zap.Logger, node config.Node) (company, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.node = log, node
	c.started++
	c.stopped = make(chan string, 1)
	return c, nil
}

func (c *fakeCompany) StartJob(ctx context.Context, t *messages.TrainTask) (actors.Submission, error) {
	c.task = t
	if c.startErr != nil {
		return actors.Submission{}, c.startErr
	}
	return actors.Submission{ID: "01job", Warnings: c.warnings}, ctx.Err()
}

func (c *fakeCompany) Logs(string) string { return c.logs }

func (c *fakeCompany) ResumeJob(ctx context.Context, id string, t *messages.TrainTask) (actors.Submission, error) {
	c.task = t
	return actors.Submission{ID: id, Warnings: c.warnings}, ctx.Err()
}

func (c *fakeCompany) WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	for _, e := range c.events {
		on(e)
	}
	if c.watched != nil {
		c.watched()
	}
	if c.watchErr != nil {
		return nil, c.watchErr
	}
	result := c.result
	if c.endless {
		select {
		case reason := <-c.stopped:
			result = &messages.JobResult{
				Phase:   messages.Phase_PHASE_STOPPED,
				Failure: &messages.Failure{Text: reason},
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	on(&messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: result}}})
	return result, nil
}

func (c *fakeCompany) StopJob(_ context.Context, id, reason string) error {
	if id != "01job" {
		return fault.New("fake.stop", fault.NotFound, "no job %s", id)
	}
	if !c.deaf {
		c.stopped <- reason
	}
	return nil
}

func (c *fakeCompany) Close() error {
	c.closed++
	return c.closeErr
}

// succeeded returns a company whose job goes well in two epochs.
func succeeded() *fakeCompany {
	one := &messages.EpochRecord{
		Epoch: 1, TrainLoss: 0.9, ValidationLoss: proto.Float64(0.5), Accuracy: proto.Float64(93.1),
		Parallelism: 2, Rounds: 4, Samples: 1437, DurationS: 0.2, Retries: 3, LostFunctions: 1, RejectedResults: 2,
	}
	two := &messages.EpochRecord{Epoch: 2, TrainLoss: 0.4, Parallelism: 2, Rounds: 4, Samples: 1437, DurationS: 0.25}
	return &fakeCompany{
		events: []*messages.JobEvent{
			{What: &messages.JobEvent_Queued{Queued: &messages.JobQueued{}}},
			{What: &messages.JobEvent_Started{Started: &messages.JobStarted{Epochs: 2, TrainSamples: 1437, Parallelism: 2, Slots: 2}}},
			{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: 1, Parallelism: 2}}},
			{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: 1, Round: 1, Parallelism: 2, EpochSamples: 1437, Loss: 0.9}}},
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: one}}},
			{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: "the sky is low"}}},
			{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: "the sky is low"}}},
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: two}}},
		},
		result: &messages.JobResult{
			Phase: messages.Phase_PHASE_SUCCEEDED, Epochs: []*messages.EpochRecord{one, two},
			Accuracy: proto.Float64(93.1), ValidationLoss: proto.Float64(0.5),
			Retries: 3, LostFunctions: 1, RejectedResults: 2, WallS: 1.9, WorkerS: 3.1, Model: "file:///m/01job.1.safetensors",
		},
	}
}

// run is one run of the program.
type run struct {
	code     int
	out, err string
}

// world is an environment that a test can look at and change.
type world struct {
	env
	out, err *bytes.Buffer
	signals  chan os.Signal
}

func newWorld(t *testing.T) *world {
	w := &world{out: &bytes.Buffer{}, err: &bytes.Buffer{}, signals: make(chan os.Signal, 2)}
	w.env = env{
		In: new(bytes.Buffer), Out: w.out, Err: w.err,
		Getenv:     func(k string) string { return map[string]string{"HOME": "/home/ann", "TROUPE_SERVER": "none"}[k] },
		IsTerminal: func(io.Writer) bool { return false },
		Columns:    func(io.Writer) int { return 0 },
		Signals:    w.signals,
		Exit:       func(code int) { require.Failf(t, "the process was ended at once", "code %d", code) },
	}
	return w
}

func (w *world) run(c *fakeCompany, args ...string) run {
	p := &program{env: w.env, start: c.start}
	code := p.Run(args)
	return run{code, w.out.String(), w.err.String()}
}

// slowStart holds StartJob up until a channel is closed.
type slowStart struct {
	*fakeCompany
	until chan struct{}
}

func (s *slowStart) start(log *zap.Logger, node config.Node) (company, error) {
	_, err := s.fakeCompany.start(log, node)
	return s, err
}

func (s *slowStart) StartJob(ctx context.Context, t *messages.TrainTask) (actors.Submission, error) {
	<-s.until
	<-ctx.Done()
	return actors.Submission{}, ctx.Err()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
