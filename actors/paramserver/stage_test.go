package paramserver_test

import (
	"io"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// stage is a ParameterServer between a played Scheduler and Journal. Its jobs
// are children that record what they are sent and end or crash as told.
type stage struct {
	sim       *testkit.Sim
	server    *actor.PID
	scheduler *testkit.Probe
	journal   *testkit.Probe
	host      *testkit.Probe // of each node
	nodes     []string       // that there are
	kept      func() (jobs, outboxes int)

	born  []*messages.JobRef                   // incarnations, in the order they began
	ages  []time.Time                          // when
	sizes []*messages.JobSize                  // with which they began
	got   []any                                // what children were sent
	act   func(ref *messages.JobRef) actorFunc // what a child does; nil: nothing

	claims    map[string]uint64                                  // the incarnation that a job was last owned under
	reached   uint64                                             // how far jobs have come
	ended     *messages.JobResult                                // how they ended, as the store knows; nil: it does not
	endedBy   uint64                                             // under which incarnation they said so
	refuse    func(stale store.Sighting) (store.Sighting, error) // why a job cannot be owned; nil: it can
	told      []string                                           // what people were told
	lines     int                                                // of the log
	released  []uint64                                           // incarnations that were let go
	ends      int                                                // how often an end was to be stored
	sealed    []*paramserver.Ended                               // ends that the store has taken
	discarded []uint64                                           // and of those the ones whose leftovers were removed
}

// own plays the store.
func (s *stage) own(id string, _ *messages.StartJob, stale store.Sighting) (*paramserver.Owned, store.Sighting, error) {
	if s.refuse != nil {
		if seen, err := s.refuse(stale); err != nil {
			return nil, seen, err
		}
	}
	s.claims[id]++
	n := s.claims[id]
	return &paramserver.Owned{
		Incarnation: n, Reached: s.reached, Ended: s.ended, EndedBy: s.endedBy, Job: s.job,
		Release: func() { s.released = append(s.released, n) },
		Discard: func() { s.discarded = append(s.discarded, n) },
	}, store.Sighting{}, nil
}

// end plays the store, too.
func (s *stage) end(id string, _ *messages.StartJob, end *messages.JobResult, over uint64, stale store.Sighting) (*paramserver.Ended, store.Sighting, error) {
	s.ends++
	if s.refuse != nil {
		if seen, err := s.refuse(stale); err != nil {
			return nil, seen, err
		}
	}
	for first := true; first || s.claims[id] <= over; first = false {
		s.claims[id]++
		s.released = append(s.released, s.claims[id])
	}
	if s.ended != nil {
		end = s.ended
	}
	s.sealed = append(s.sealed, &paramserver.Ended{Incarnation: s.claims[id], Result: end})
	return s.sealed[len(s.sealed)-1], store.Sighting{}, nil
}

type actorFunc func(ctx actor.Context)

func newStage(t testing.TB, seed uint64) *stage { return newStageOf(t, seed, false) }

// newStageOf is newStage, where other nodes may run jobs, too.
func newStageOf(t testing.TB, seed uint64, shared bool) *stage {
	s := &stage{sim: testkit.New(t, seed), claims: map[string]uint64{}}
	s.scheduler, s.journal, s.host = s.sim.Probe("scheduler"), s.sim.Probe("journal"), s.sim.Probe("host")
	s.server = s.sim.Spawn("paramserver", paramserver.Observed(paramserver.Deps{
		Log: s.log(), Warn: func(text string) { s.told = append(s.told, text) }, Rim: s.sim.Rim(), Node: "n1", Shared: shared, Own: s.own, End: s.end,
		Scheduler: func() *actor.PID { return s.scheduler.PID },
		Journal:   func() *actor.PID { return s.journal.PID },
		Nodes:     func() []string { return s.nodes },
		Host:      func(string) *actor.PID { return s.host.PID },
	}, func(check func() error, kept func() (int, int)) {
		s.sim.Check(check)
		s.kept = kept
	}))
	return s
}

// log counts what is logged as a warning, and fails on a bug.
func (s *stage) log() *zap.Logger {
	lines := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.WarnLevel)
	return zap.New(lines, zap.Development(), zap.Hooks(func(zapcore.Entry) error { s.lines++; return nil }))
}

func (s *stage) job(ref *messages.JobRef, start *messages.StartJob) *actor.Props {
	var act actorFunc
	if s.act != nil {
		act = s.act(ref)
	}
	return actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			s.born, s.sizes, s.ages = append(s.born, ref), append(s.sizes, start.GetSize()), append(s.ages, s.sim.Now())
		case *actor.Stopping, *actor.Stopped:
		case *messages.JobFinishedReply:
			s.got = append(s.got, m)
			ctx.Stop(ctx.Self())
			return
		case *messages.ResizeJob:
			s.got = append(s.got, m)
			ctx.Respond(&messages.ResizeJobReply{Job: ref, Seq: m.GetSize().GetSeq()})
		case *messages.StopJob:
			s.got = append(s.got, m)
			ctx.Respond(&messages.StopJobReply{})
		}
		if act != nil {
			act(ctx)
		}
	})
}

// child returns the child that runs an incarnation.
func child(id string) *actor.PID { return actor.NewPID("nonhost", "paramserver/"+id) }

// incarnations returns the numbers of those that began.
func (s *stage) incarnations() []uint64 {
	var out []uint64
	for _, ref := range s.born {
		out = append(out, ref.GetIncarnation())
	}
	return out
}

// start asks for a job as the Scheduler does, with a size of this number.
func (s *stage) start(id string, term, seq uint64) *messages.StartJobReply {
	return testkit.Ask[*messages.StartJobReply](s.sim, s.server, startJob(id, term, seq))
}

func startJob(id string, term, seq uint64) *messages.StartJob {
	return &messages.StartJob{JobId: id, Task: &messages.TrainTask{Options: &messages.TrainOptions{Merge: "average"}}, Size: size(term, seq)}
}

func size(term, seq uint64) *messages.JobSize {
	return &messages.JobSize{Term: term, Seq: seq, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: uint32(seq)}}}
}

func ref(id string, incarnation uint64) *messages.JobRef {
	return &messages.JobRef{Id: id, Incarnation: incarnation}
}

func finished(id string, incarnation uint64, phase messages.Phase) *messages.JobFinished {
	return &messages.JobFinished{Job: ref(id, incarnation), Result: &messages.JobResult{Phase: phase}}
}
