package board_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/board"
	"github.com/troupe-ml/troupe/messages"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// play is a board on a clock of its own.
type play struct {
	*board.Board
	now time.Time
	seq map[string]uint64 // by job and incarnation
}

func newPlay() *play {
	p := &play{now: epoch, seq: map[string]uint64{}}
	p.Board = board.New(func() time.Time { return p.now })
	return p
}

// say lets an event of an incarnation happen now.
func (p *play) say(id string, incarnation uint64, e *messages.JobEvent) string {
	place := fmt.Sprint(id, incarnation)
	p.seq[place]++
	e.Job, e.Seq, e.TimeMs = &messages.JobRef{Id: id, Incarnation: incarnation}, p.seq[place], p.now.UnixMilli()
	p.Add([]*messages.JobEvent{e})
	return board.Cursor(e)
}

// submitted puts a job on the board now.
func (p *play) submitted(id string, v *messages.JobView) {
	v.Id, v.Origin, v.Task, v.SubmittedMs = id, "server", task(), p.now.UnixMilli()
	p.Submitted(v, p.now)
}

func started(epoch uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{Parallelism: 2, Slots: 2, Epoch: epoch}}}
}

func begun(n uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: n, Parallelism: 2}}}
}

func merged(n, round uint32, samples, total uint64) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{
		Epoch: n, Round: round, Parallelism: 2, Samples: samples, EpochSamples: total, Loss: 0.5,
	}}}
}

func finished(n uint32, accuracy float64) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{
		Record: &messages.EpochRecord{Epoch: n, Samples: 100, Accuracy: &accuracy},
	}}}
}

func over(phase messages.Phase, epochs ...*messages.EpochRecord) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{Phase: phase, Epochs: epochs, Retries: 3}}}}
}

func task() *messages.TrainTask { return &messages.TrainTask{Epochs: 2, TrainSamples: 100} }

// Waiting, starting and running are times of their own, and the rest is foreseen
// by the last merges.
func TestAJobComesAlong(t *testing.T) {
	p := newPlay()
	p.submitted("j", &messages.JobView{})
	p.now = p.now.Add(3 * time.Second)
	v, ok := p.Job("j")
	require.True(t, ok)
	require.Equal(t, messages.Phase_PHASE_QUEUED, v.GetPhase())
	require.Equal(t, "a free slot", v.GetWaitingFor())
	require.InDelta(t, 3, v.GetQueuedS(), 0.01)

	p.say("j", 1, started(0))
	p.now = p.now.Add(2 * time.Second)
	v, _ = p.Job("j")
	require.Equal(t, messages.Phase_PHASE_STARTING, v.GetPhase())
	require.Empty(t, v.GetWaitingFor())
	require.InDelta(t, 2, v.GetStartingS(), 0.01)
	require.Nil(t, v.EtaS)

	p.say("j", 1, begun(1))
	p.now = p.now.Add(time.Second)
	p.say("j", 1, merged(1, 1, 50, 50))
	v, _ = p.Job("j")
	require.Equal(t, messages.Phase_PHASE_RUNNING, v.GetPhase())
	require.EqualValues(t, 1, v.GetEpoch())
	require.EqualValues(t, 1, v.GetRound())
	require.InDelta(t, 3, v.GetQueuedS(), 0.01)
	require.InDelta(t, 2, v.GetStartingS(), 0.01)
	require.InDelta(t, 1, v.GetRunningS(), 0.01)
	require.InDelta(t, 50.0/3, v.GetSamplesPerS(), 1)
	require.InDelta(t, 150/v.GetSamplesPerS(), v.GetEtaS(), 0.1)

	p.say("j", 1, &messages.JobEvent{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
		Failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED},
	}}})
	p.say("j", 1, finished(1, 80))
	p.say("j", 1, begun(2))
	p.say("j", 1, finished(2, 90))
	v, _ = p.Job("j")
	require.Equal(t, messages.Phase_PHASE_SAVING, v.GetPhase())
	require.EqualValues(t, 1, v.GetRetries())
	require.EqualValues(t, 1, v.GetRejectedResults())
	require.Equal(t, 90.0, v.GetAccuracy())
	require.Len(t, p.Running(), 1)

	p.say("j", 1, over(messages.Phase_PHASE_SUCCEEDED, v.GetEpochs()...))
	p.now = p.now.Add(time.Hour)
	v, _ = p.Job("j")
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, v.GetPhase())
	require.InDelta(t, 1, v.GetRunningS(), 0.01, "it runs no longer")
	require.Empty(t, p.Running())
}

// A job that goes on has the epochs that count, once each.
func TestAJobGoesOn(t *testing.T) {
	p := newPlay()
	one := &messages.EpochRecord{Epoch: 1, Samples: 100}
	p.submitted("j", &messages.JobView{Epochs: []*messages.EpochRecord{one}})
	p.say("j", 2, started(2))
	p.say("j", 2, merged(2, 1, 50, 50))
	p.say("j", 2, finished(2, 70))
	p.say("j", 3, started(2)) // its TrainJob died
	v, _ := p.Job("j")
	require.EqualValues(t, 3, v.GetIncarnation())
	require.Len(t, v.GetEpochs(), 1)
	p.say("j", 3, finished(2, 71))
	v, _ = p.Job("j")
	require.Len(t, v.GetEpochs(), 2)
	require.Equal(t, 71.0, v.GetEpochs()[1].GetAccuracy())
}

// Times of a job that goes on are added to those of its earlier lives; what its
// result says of all of them counts in the end.
func TestTimesOfAllLives(t *testing.T) {
	p := newPlay()
	p.submitted("j", &messages.JobView{Life: 4, QueuedS: proto.Float64(1), StartingS: proto.Float64(2), RunningS: proto.Float64(30)})
	p.now = p.now.Add(5 * time.Second)
	v, _ := p.Job("j")
	require.EqualValues(t, 4, v.GetLife())
	require.InDelta(t, 6, v.GetQueuedS(), 0.01)
	require.InDelta(t, 2, v.GetStartingS(), 0.01)
	require.InDelta(t, 30, v.GetRunningS(), 0.01)
	p.say("j", 2, started(2))
	p.now = p.now.Add(10 * time.Second)
	v, _ = p.Job("j")
	require.InDelta(t, 6, v.GetQueuedS(), 0.01)
	require.InDelta(t, 2, v.GetStartingS(), 0.01)
	require.InDelta(t, 40, v.GetRunningS(), 0.01)
	ends := over(messages.Phase_PHASE_SUCCEEDED)
	r := ends.GetEnded().GetResult()
	r.WallS, r.QueuedS, r.StartingS = 44, proto.Float64(7), proto.Float64(3)
	p.say("j", 2, ends)
	v, _ = p.Job("j")
	require.Equal(t, []float64{7, 3, 41}, []float64{v.GetQueuedS(), v.GetStartingS(), v.GetRunningS()})
}

// What the caller does to a view changes nothing here.
func TestViewsAreCopies(t *testing.T) {
	p := newPlay()
	p.submitted("j", &messages.JobView{})
	v, _ := p.Job("j")
	v.Task.Epochs = 99
	again, _ := p.Job("j")
	require.True(t, proto.Equal(task(), again.GetTask()))
	p.Drop("j")
	_, ok := p.Job("j")
	require.False(t, ok)
}

// Readers of all events go on where they were, hear of new ones, and of those
// that are gone.
func TestAllEventsInOrder(t *testing.T) {
	p := newPlay()
	first := p.say("a", 1, started(0))
	p.say("b", 1, started(0))
	at, ok := p.Find(first)
	require.True(t, ok)
	events, next, more, lost := p.After(at)
	require.False(t, lost)
	require.Len(t, events, 1)
	require.Equal(t, "b:1:1", board.Cursor(events[0]))
	select {
	case <-more:
		t.Fatal("there is nothing more")
	default:
	}
	p.say("a", 1, begun(1))
	<-more
	events, _, _, _ = p.After(next)
	require.Equal(t, "a:1:2", board.Cursor(events[0]))
	require.Equal(t, p.End(), next+1)

	for range 25_000 {
		p.say("c", 1, merged(1, 1, 1, 1))
	}
	events, _, _, lost = p.After(next)
	require.True(t, lost)
	require.Less(t, len(events), 20_001)
	_, ok = p.Find(first)
	require.False(t, ok)
}

// The jobs that ended first are forgotten, so that memory is bounded.
func TestEndedJobsAreForgotten(t *testing.T) {
	p := newPlay()
	for i := range 1100 {
		p.say(fmt.Sprintf("j%04d", i), 1, over(messages.Phase_PHASE_FAILED))
	}
	_, ok := p.Job("j0000")
	require.False(t, ok)
	_, ok = p.Job("j1099")
	require.True(t, ok)
}
