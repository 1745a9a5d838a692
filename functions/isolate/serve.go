package isolate

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// variable is set in a child, to the most memory it may take, in bytes (0: as
	// much as there is).
	variable = "TROUPE_ISOLATED"
	// controlFD is the connection to who started it.
	controlFD = 3
)

// Serve returns at once, but in a process that a Runtime has started. There it
// runs what that asks for, on the runtime that open returns, and never returns.
// Call it before anything that the child is not to do a second time.
func Serve(open func() (functions.Runtime, error)) {
	limit, isChild := os.LookupEnv(variable)
	if !isChild {
		return
	}
	_ = os.Unsetenv(variable) // what a function starts is no child
	unix.CloseOnExec(controlFD)
	s := &server{
		control: os.NewFile(controlFD, "control"),
		runs:    make(chan *request), files: make(chan string),
	}
	if err := s.serve(limit, open); err != nil {
		fmt.Fprintln(os.Stderr, "isolated function:", err)
	}
	os.Exit(1)
}

// server is a child's side of the connection.
type server struct {
	control *os.File
	runtime functions.Runtime
	runs    chan *request
	files   chan string // paths, answers to create
	writing sync.Mutex  // held while something is said
}

// serve answers requests until the connection is of no use any more.
func (s *server) serve(limit string, open func() (functions.Runtime, error)) error {
	if err := limitMemory(limit); err != nil {
		return child.WriteFrame(s.control, fromChild{Failed: failedBy(err)})
	}
	var err error
	if s.runtime, err = open(); err != nil {
		return child.WriteFrame(s.control, fromChild{Failed: failedBy(err)})
	}
	go s.listen()
	if err := s.say(fromChild{Ready: true}); err != nil {
		return err
	}
	for r := range s.runs {
		if err := s.say(s.answer(r)); err != nil {
			return err
		}
	}
	return nil
}

// limitMemory bounds what this process may hold of its own, and has the system
// end it before others where memory runs out.
func limitMemory(text string) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) // where the system has no such thing, so be it
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return nil
	}
	debug.SetMemoryLimit(limit / 10 * 9) // collect garbage in time
	var now unix.Rlimit
	if err = unix.Getrlimit(unix.RLIMIT_DATA, &now); err == nil {
		now.Cur = uint64(limit)
		err = unix.Setrlimit(unix.RLIMIT_DATA, &now)
	}
	if err != nil {
		return fault.New("isolate.serve", fault.Unavailable, "limit the memory to %d bytes: %w", limit, err)
	}
	return nil
}

// say tells the other side something; several may at once.
func (s *server) say(m fromChild) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return child.WriteFrame(s.control, m)
}

// listen reads the connection. Its end is this process's end, whatever that does.
func (s *server) listen() {
	for {
		var m toChild
		if err := child.ReadFrame(s.control, &m); err != nil {
			os.Exit(0)
		}
		switch {
		case m.Run != nil:
			s.runs <- m.Run
		case m.Stacks != "":
			text := s.stacks(m.Stacks)
			if s.say(fromChild{Stacks: &text}) != nil {
				os.Exit(0)
			}
		default:
			s.files <- m.Path
		}
	}
}

// answer runs an invocation and returns what is said to that.
func (s *server) answer(r *request) fromChild {
	inv, opened, err := s.invocation(r)
	defer func() {
		for _, f := range opened {
			_ = f.Close() // it was only read
		}
	}()
	if err != nil {
		return fromChild{Failed: failedBy(err)}
	}
	var outputs []*served
	want := func(name string, wanted bool) functions.Output {
		if !wanted {
			return nil
		}
		o := &served{server: s, name: name}
		outputs = append(outputs, o)
		return o
	}
	inv.ModelOut, inv.OptimizerOut = want(modelOut, r.WantModel), want(optimizerOut, r.WantOptimizer)
	answer, err := s.runtime.Run(context.Background(), inv)
	d := &done{
		Samples: answer.Samples, Batches: answer.Batches, Loss: bits(answer.Loss), Correct: bits(answer.Correct),
		HasAccuracy: answer.HasAccuracy, HasOptimizer: answer.HasOptimizer, Predictions: answer.Predictions, CRC: map[string]uint32{},
	}
	for name, m := range answer.Metrics {
		if d.Metrics == nil {
			d.Metrics = map[string][2]number{}
		}
		d.Metrics[name] = [2]number{bits(m.Sum), bits(m.Weight)}
	}
	for _, o := range outputs {
		if cerr := o.close(d.CRC); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return fromChild{Failed: failedBy(err)}
	}
	return fromChild{Done: d}
}

// invocation opens the inputs of a request.
func (s *server) invocation(r *request) (inv functions.Invocation, opened []io.Closer, err error) {
	if r.Threads > 0 && r.Threads != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(r.Threads)
	}
	inv = functions.Invocation{
		Task: r.Task, Function: r.Function, JobID: r.JobID, Incarnation: r.Incarnation, Epoch: r.Epoch, Round: r.Round,
		Index: r.Index, Attempt: r.Attempt, Fresh: r.Fresh, N: r.N, Slot: r.Slot, Threads: r.Threads, K: r.K, BatchSize: r.BatchSize,
		LR: r.LR.float64(), Seed: r.Seed, Args: r.Args, Env: r.Env, Positions: r.Positions,
		Data: functions.Data{Name: r.Dataset, Samples: r.Samples}, Infer: r.Infer, Sabotage: r.Sabotage,
	}
	if r.PositionsFile != "" {
		if inv.Positions, err = readPositions(r.PositionsFile); err != nil {
			return inv, nil, err
		}
	}
	for _, f := range []struct {
		to   *functions.Input
		from input
	}{{&inv.Data.X, r.X}, {&inv.Data.Y, r.Y}, {&inv.Model, r.Model}, {&inv.Optimizer, r.Optimizer}} {
		if f.from.Path == "" {
			continue
		}
		file, err := os.Open(f.from.Path)
		if err != nil {
			return inv, opened, fault.New("isolate.serve", fault.Unavailable, "open an input: %w", err)
		}
		opened = append(opened, file)
		*f.to = functions.Input{R: file, Size: f.from.Size, Path: f.from.Path}
	}
	return inv, opened, nil
}

func readPositions(path string) ([]int64, error) {
	data, err := os.ReadFile(path)
	positions := make([]int64, len(data)/8)
	if err == nil {
		err = binary.Read(bytes.NewReader(data), binary.LittleEndian, positions)
	}
	if err != nil {
		return nil, fault.New("isolate.serve", fault.Unavailable, "read the positions: %w", err)
	}
	return positions, nil
}
