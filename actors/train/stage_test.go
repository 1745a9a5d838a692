package train_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// stage is a real TrainJob between a played ParameterServer, Scheduler, Journal
// and host. Its invokers record what they are told to run; the test answers.
type stage struct {
	t         *testing.T
	sim       *testkit.Sim
	job       *actor.PID
	epochs    uint32 // of the task
	space     *plane.Memory
	models    *models
	vault     *vault
	scheduler *testkit.Probe
	host      *testkit.Probe
	others    map[string]*testkit.Probe // of nodes beside the job's, by name

	told     []*messages.Invoke    // each attempt once, in order; see next
	invokers map[uint32]*actor.PID // the one that a function was last given to
	stopped  map[string]bool       // invokers that are gone, by id
	events   []*messages.JobEvent  // each once
	finished *messages.JobFinished // what the ParameterServer was told
	released bool                  // the host was told to let go of everything
	crash    any                   // why the job died; nil: it did not
	log      *observer.ObservedLogs
}

// taskOf returns a task of one epoch of so many samples, batches of one, one
// batch a round, no validation, no retries.
func taskOf(samples uint64, change func(*messages.TrainTask)) *messages.TrainTask {
	task := &messages.TrainTask{
		FunctionName: "f", Dataset: "d", DatasetName: "d", Epochs: 1, BatchSize: 1, Lr: 0.1, TrainSamples: samples,
		Options: &messages.TrainOptions{
			MinParallelism: 1, StaticParallelism: true, K: 1, Merge: "average", OptimizerState: "reset", ValidateEvery: -1,
			Shuffle: proto.Bool(true), Seed: 1, Retries: proto.Uint32(0), MinFunctions: 1, FunctionTimeoutMs: 60_000,
		},
	}
	if change != nil {
		change(task)
	}
	return task
}

// newStage starts a job with N functions on as many slots.
func newStage(t *testing.T, n uint32, task *messages.TrainTask) *stage {
	return newStageOf(t, 1, sizeOf(1, n, n), task)
}

func newStageOf(t *testing.T, seed uint64, size *messages.JobSize, task *messages.TrainTask) *stage {
	return newStageFrom(t, seed, size, task, &vault{}, nil)
}

// newStageFrom starts a job whose vault, or host, has a state to start from.
func newStageFrom(t *testing.T, seed uint64, size *messages.JobSize, task *messages.TrainTask, from *vault, kept *messages.JobState, before ...func(*stage)) *stage {
	s := &stage{
		t: t, sim: testkit.New(t, seed), space: plane.NewMemory("n1"), models: &models{}, vault: from, epochs: task.GetEpochs(),
		invokers: map[uint32]*actor.PID{}, stopped: map[string]bool{},
	}
	s.scheduler, s.host = s.sim.Probe("scheduler"), s.sim.Probe("host")
	s.host.Answer = func(msg any) any {
		if m, ok := msg.(*messages.AskState); ok {
			return &messages.AskStateReply{Node: "n1", Job: m.GetJob(), State: kept}
		}
		if m, ok := msg.(*messages.ReleaseTensors); ok && m.GetEverything() {
			s.released = true
			return &messages.ReleaseTensorsReply{Job: m.GetStep().GetJob(), Node: "n1"}
		}
		return nil
	}
	for _, prepare := range before {
		prepare(s)
	}
	journal := s.sim.Spawn("journal", actor.PropsFromFunc(s.journal))
	ref, start := &messages.JobRef{Id: "j", Incarnation: 2}, &messages.StartJob{JobId: "j", Task: task, Size: size, QueuedMs: 5}
	core, logged := observer.New(zap.WarnLevel)
	s.log = logged
	props := train.Props(ref, start, s.vault, train.Deps{
		Log: zap.New(core, zap.Development()), Rim: s.sim.Rim(), Node: "n1", Space: s.space, Models: s.models,
		Invoker: actor.PropsFromFunc(s.invoker),
		Nodes:   func() []string { return append([]string{"n1"}, slices.Sorted(maps.Keys(s.others))...) },
		Host: func(node string) *actor.PID {
			if other := s.others[node]; other != nil {
				return other.PID
			}
			return s.host.PID
		},
		Scheduler: func() *actor.PID { return s.scheduler.PID },
		Journal:   func() *actor.PID { return journal },
	})
	s.sim.Spawn("paramserver", actor.PropsFromProducer(func() actor.Actor { return &server{s, props} }))
	s.sim.Drain()
	return s
}

func sizeOf(seq uint64, n, slots uint32) *messages.JobSize {
	return &messages.JobSize{Term: 1, Seq: seq, Parallelism: n, Grants: []*messages.SlotGrant{{Node: "n1", Slots: slots}}}
}

// server plays the ParameterServer, the job's parent.
type server struct {
	*stage
	child *actor.Props
}

func (s *server) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.job = ctx.Spawn(s.child)
	case *messages.JobFinished:
		s.finished = m
		ctx.Respond(&messages.JobFinishedReply{Job: m.GetJob()})
	}
}

func (s *server) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	s.crash = reason
	sup.StopChildren(child)
}

// journal plays the Journal.
func (s *stage) journal(ctx actor.Context) {
	if m, ok := ctx.Message().(*messages.JobEvent); ok {
		if m.GetSeq() == uint64(len(s.events)+1) {
			s.events = append(s.events, m)
		}
		ctx.Respond(&messages.JobEventReply{Job: m.GetJob(), Seq: uint64(len(s.events))})
	}
}

// failed is what played invokers panic with.
type failed struct {
	warnings []string
	attempt  *messages.AttemptRef
	failure  *messages.Failure
	slot     uint32
}

func (f failed) Error() string                 { return f.failure.GetText() }
func (f failed) Attempt() *messages.AttemptRef { return f.attempt }
func (f failed) Failure() *messages.Failure    { return f.failure }
func (f failed) Slot() uint32                  { return f.slot }
func (f failed) Ran() time.Duration            { return time.Second }

func (f failed) Warnings() []string { return f.warnings }

// invoker plays a FunctionInvoker.
func (s *stage) invoker(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.Invoke:
		same := func(told *messages.Invoke) bool { return actorkit.SameAttempt(told.GetAttempt(), m.GetAttempt()) }
		if !slices.ContainsFunc(s.told, same) {
			s.invokers[m.GetAttempt().GetFunction()] = ctx.Self()
			s.told = append(s.told, m)
		}
	case failed:
		panic(m)
	case *actor.Stopped:
		s.stopped[ctx.Self().GetId()] = true
	}
}

// next returns what invokers were told to run since the last call, by function.
func (s *stage) next() []*messages.Invoke {
	s.sim.Drain()
	told := make([]*messages.Invoke, 0, len(s.told))
	for i, inv := range s.told {
		if inv != nil {
			told = append(told, inv)
			s.told[i] = &messages.Invoke{Attempt: inv.GetAttempt()} // remembered, not told again
		}
	}
	told = slices.DeleteFunc(told, func(inv *messages.Invoke) bool { return inv.GetPlan() == nil })
	slices.SortStableFunc(told, func(a, b *messages.Invoke) int {
		return cmp.Compare(a.GetAttempt().GetFunction(), b.GetAttempt().GetFunction())
	})
	return told
}

// tensors puts a state dict of one value into the plane.
func (s *stage) tensors(attempt *messages.AttemptRef, part string, value float32) *messages.TensorRef {
	key := fmt.Sprintf("%s/%d/%d-%d-%d-%d/%s", attempt.GetJob().GetId(), attempt.GetJob().GetIncarnation(),
		attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction(), attempt.GetAttempt(), part)
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int64{1}}})
	require.NoError(s.t, err)
	draft, err := s.space.Create(key, layout.Size())
	require.NoError(s.t, err)
	_, err = tensor.Write(draft, tensor.StateDict{tensor.NewFloat32("w", []int64{1}, []float32{value})})
	require.NoError(s.t, err)
	ref, err := draft.Seal()
	require.NoError(s.t, err)
	return wire.TensorRef(ref)
}

// answer returns a sound answer to an invocation: a model with one value, an
// optimizer state that holds ten times that, where one is wanted.
func (s *stage) answer(inv *messages.Invoke, value float32) *messages.Invoked {
	a := &messages.Invoked{Attempt: inv.GetAttempt(), Loss: 1, DurationUs: 1000}
	for _, r := range inv.GetRanges() {
		a.Samples += r.GetHi() - r.GetLo()
	}
	switch inv.GetAttempt().GetTask() {
	case messages.Task_TASK_VALIDATE:
		a.Loss, a.Correct, a.HasAccuracy = 0.5*float64(a.GetSamples()), float64(a.GetSamples()), true
		return a
	case messages.Task_TASK_TRAIN:
		if inv.GetPlan().GetWantOptimizer() {
			a.Optimizer = s.tensors(inv.GetAttempt(), "optimizer", 10*value)
		}
	}
	a.Model = s.tensors(inv.GetAttempt(), "model", value)
	if inv.GetPlan().GetCompress() == "int8" {
		s.compress(inv, a, value)
	}
	return a
}

// finish lets invocations succeed, each with its function's id as its value.
func (s *stage) finish(invs ...*messages.Invoke) {
	for _, inv := range invs {
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answer(inv, float32(inv.GetAttempt().GetFunction()))})
	}
	s.sim.Drain()
}

// fail lets an invocation fail.
func (s *stage) fail(inv *messages.Invoke, failure *messages.Failure) {
	s.sim.Send(s.invokers[inv.GetAttempt().GetFunction()], failed{attempt: inv.GetAttempt(), failure: failure, slot: 1 + inv.GetAttempt().GetFunction() + s.moved(inv)})
	s.sim.Drain()
}

// moved tells apart the slots of an assignment's attempts.
func (s *stage) moved(inv *messages.Invoke) uint32 { return 100 * inv.GetAttempt().GetAttempt() }

// begin answers the init and returns the first round's invocations.
func (s *stage) begin() []*messages.Invoke {
	init := s.next()
	if len(init) == 0 {
		s.sim.Advance(time.Second) // not every node says what it keeps of the job
		init = s.next()
	}
	require.Len(s.t, init, 1)
	require.Equal(s.t, messages.Task_TASK_INIT, init[0].GetAttempt().GetTask())
	s.finish(init...)
	return s.next()
}

// end answers whatever comes until the job has ended, and returns its result.
func (s *stage) end() *messages.JobResult {
	for s.finished == nil {
		told := s.next()
		if len(told) == 0 && s.finished == nil {
			s.sim.Advance(100 * time.Millisecond)
		}
		s.finish(told...)
		require.Nil(s.t, s.crash)
		require.Less(s.t, s.sim.Now().Sub(testkit.Epoch), time.Hour, "the job does not end")
	}
	return s.finished.GetResult()
}

// value reads the one value of a state dict.
func (s *stage) value(ref *messages.TensorRef) float32 {
	blob, err := s.space.Open(s.t.Context(), wire.PlaneRef(ref))
	require.NoError(s.t, err)
	dict, err := tensor.Read(blob, blob.Size())
	require.NoError(s.t, err)
	return dict[0].Float32()[0]
}

// merges returns the events of merges.
func (s *stage) merges() (out []*messages.RoundMerged) {
	for _, e := range s.events {
		if m := e.GetRoundMerged(); m != nil {
			out = append(out, m)
		}
	}
	return out
}

// warnings returns the texts of warnings.
func (s *stage) warnings() (out []string) {
	for _, e := range s.events {
		if m := e.GetWarned(); m != nil {
			out = append(out, m.GetText())
		}
	}
	return out
}

// functions returns the function ids of invocations.
func functions(invs []*messages.Invoke) []uint32 {
	ids := make([]uint32, len(invs))
	for i, inv := range invs {
		ids[i] = inv.GetAttempt().GetFunction()
	}
	return ids
}

// models keeps what the job saves, once it works.
type models struct {
	fails []error // of the next calls
	calls int
	saved float32
}

// Open implements train.Models: there is nothing to start from.
func (m *models) Open(_ context.Context, name string) (plane.Blob, error) {
	return nil, fault.New("train_test.open", fault.NotFound, "there is no model %q", name)
}

// Save implements train.Models.
func (m *models) Save(_ context.Context, _ *messages.JobRef, _ *messages.TrainTask, _ *messages.JobResult, model plane.Blob) (string, error) {
	m.calls++
	if len(m.fails) > 0 {
		err := m.fails[0]
		m.fails = m.fails[1:]
		return "", err
	}
	dict, err := tensor.Read(model, model.Size())
	if err != nil {
		return "", err
	}
	m.saved = dict[0].Float32()[0]
	return "mem:///models/j.2.safetensors", nil
}
