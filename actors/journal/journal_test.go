package journal_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/journal"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// sender is a job that says something each 300 ms and repeats each second what
// the journal has not answered for.
type sender struct {
	rim     actorkit.Rim
	journal *actor.PID
	outbox  *actorkit.Outbox
	left    int // events to come
}

type (
	post   struct{}
	repeat struct{}
)

func (s *sender) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.rim.SendAfter(0, ctx.Self(), post{})
		s.rim.SendAfter(time.Second, ctx.Self(), repeat{})
	case post:
		s.outbox.Post(ctx, s.journal, s.rim.Now(), &messages.JobEvent{})
		if s.left--; s.left > 0 {
			s.rim.SendAfter(300*time.Millisecond, ctx.Self(), post{})
		}
	case repeat:
		s.outbox.Repeat(ctx, s.journal)
		if s.left > 0 || !s.outbox.Empty() {
			s.rim.SendAfter(time.Second, ctx.Self(), repeat{})
		}
	case *messages.JobEventReply:
		s.outbox.Acknowledge(m)
	}
}

// watcher follows the rule that the package comment gives to watchers.
type watcher struct {
	rim     actorkit.Rim
	journal *actor.PID
	seen    *[]place
	cursor  place
}

type place struct{ incarnation, seq uint64 }

func (w *watcher) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, repeat:
		ctx.Request(w.journal, &messages.WatchJob{JobId: "j", AfterIncarnation: w.cursor.incarnation, AfterSeq: w.cursor.seq})
		w.rim.SendAfter(time.Second, ctx.Self(), repeat{})
	case *messages.JobEvent:
		w.take(m)
	}
}

func (w *watcher) take(m *messages.JobEvent) {
	p := place{m.GetJob().GetIncarnation(), m.GetSeq()}
	if p == (place{w.cursor.incarnation, w.cursor.seq + 1}) || p.incarnation > w.cursor.incarnation && p.seq == 1 {
		w.cursor = p
		*w.seen = append(*w.seen, p)
	}
}

// Whatever gets lost, repeated or overtaken, and when the journal crashes, a
// watcher sees every event of a job once and in order.
func TestAWatcherSeesEveryEventOnceAndInOrder(t *testing.T) {
	const events = 20
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			sim := testkit.New(t, seed)
			sim.Faults = testkit.Faults{Drop: 0.2, Duplicate: 0.2, Delay: 0.2, MaxDelay: 2 * time.Second}
			pid := sim.Spawn("journal", journal.Props(journal.Deps{Log: zaptest.NewLogger(t)}))
			outbox := actorkit.NewOutbox(&messages.JobRef{Id: "j", Incarnation: 1})
			sim.Spawn("job", actor.PropsFromProducer(func() actor.Actor {
				return &sender{rim: sim.Rim(), journal: pid, outbox: outbox, left: events}
			}))
			var seen []place
			sim.Spawn("watcher", actor.PropsFromProducer(func() actor.Actor {
				return &watcher{rim: sim.Rim(), journal: pid, seen: &seen}
			}))
			sim.At(2*time.Second, func() { sim.CrashAfter(pid, errors.New("crashed on purpose")) })
			sim.At(4*time.Second, func() { sim.Crash(pid, errors.New("crashed on purpose")) })
			sim.RunUntil(func() bool { return len(seen) == events && outbox.Empty() }, 5*time.Minute)
			for i, p := range seen {
				require.Equal(t, place{1, uint64(i + 1)}, p)
			}
		})
	}
}

func TestALowerIncarnationIsAnsweredAndNotShown(t *testing.T) {
	sim := testkit.New(t, 1)
	pid := sim.Spawn("journal", journal.Props(journal.Deps{Log: zaptest.NewLogger(t)}))
	watching := sim.Probe("watcher")
	watching.Send(pid, &messages.WatchJob{JobId: "j"})
	sim.Drain()

	say := func(incarnation, seq uint64) uint64 {
		return testkit.Ask[*messages.JobEventReply](sim, pid,
			&messages.JobEvent{Job: &messages.JobRef{Id: "j", Incarnation: incarnation}, Seq: seq}).GetSeq()
	}
	require.EqualValues(t, 1, say(2, 1))
	require.EqualValues(t, 1, testkit.Expect[*messages.JobEvent](watching).GetSeq())
	require.EqualValues(t, 5, say(1, 5))
	testkit.ExpectNone[*messages.JobEvent](watching)
}

func TestAWatcherThatStopsIsForgotten(t *testing.T) {
	sim := testkit.New(t, 1)
	pid := sim.Spawn("journal", journal.Props(journal.Deps{Log: zaptest.NewLogger(t)}))
	watching := sim.Probe("watcher")
	watching.Send(pid, &messages.WatchJob{JobId: "j"})
	sim.Drain()
	sim.Stop(watching.PID)
	sim.Drain()
	before := sim.Counts().Delivered
	testkit.Ask[*messages.JobEventReply](sim, pid, &messages.JobEvent{Job: &messages.JobRef{Id: "j", Incarnation: 1}, Seq: 1})
	sim.Drain()
	require.EqualValues(t, 2, sim.Counts().Delivered-before, "the event and its answer, and nothing to who is gone")
}
