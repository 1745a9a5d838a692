package jobprocess_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/actors/journal"
	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

const epochs = 4

// stage is a ParameterServer with a Journal, a played Scheduler, and one job "j"
// whose processes are played on virtual time; what they leave is in the fields.
type stage struct {
	*testkit.Sim
	t      *testing.T
	server *actor.PID
	boss   *boss
	shown  []*messages.JobEvent
	lent   uint32 // as the host was told last

	// The store.
	claims uint64 // the highest
	done   uint32 // epochs
	result *messages.JobResult
	owner  error // who else runs the job; nil: nobody

	child     string // the last one's name
	crashes   int    // of it, on purpose
	launches  int
	processes []*process
	broken    func(launch int) error // why a process cannot be started; nil: it can
	quits     func(*process) bool    // it dies instead of taking its task; nil: none does
}

func newStage(t *testing.T, seed uint64) *stage {
	s := &stage{Sim: testkit.New(t, seed), t: t}
	journal := s.Spawn("journal", journal.Props(journal.Deps{
		Log: zap.NewNop(), Shown: func(events []*messages.JobEvent) { s.shown = append(s.shown, events...) },
	}))
	s.boss = &boss{stage: s}
	boss := s.Spawn("scheduler", actor.PropsFromFunc(s.boss.Receive))
	host := s.Spawn("host", actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.SlotsLent); ok {
			s.lent = m.GetSlots()
		}
	}))
	deps := jobprocess.Deps{
		Log: zap.NewNop().WithOptions(zap.Development()), Rim: s.Rim(), Launch: s.launch,
		Scheduler: func() *actor.PID { return boss }, Journal: func() *actor.PID { return journal },
		Host: func() *actor.PID { return host },
	}
	s.server = s.Spawn("paramserver", paramserver.Props(paramserver.Deps{
		Log: deps.Log, Rim: s.Rim(), Scheduler: deps.Scheduler, Journal: deps.Journal, Nodes: func() []string { return nil },
		Own: func(string, *messages.StartJob, store.Sighting) (*paramserver.Owned, store.Sighting, error) {
			return &paramserver.Owned{
				Incarnation: s.claims + 1, Reached: uint64(s.done), Ended: s.result,
				Job: func(ref *messages.JobRef, start *messages.StartJob) *actor.Props {
					s.child = fmt.Sprintf("%s.%d", ref.GetId(), ref.GetIncarnation())
					return jobprocess.Props(ref, start, deps)
				},
				Release: func() {}, Discard: func() {},
			}, store.Sighting{}, nil
		},
		End: func(_ string, _ *messages.StartJob, end *messages.JobResult, over uint64, _ store.Sighting) (*paramserver.Ended, store.Sighting, error) {
			s.claims = max(s.claims, over) + 1
			if s.result != nil {
				end = s.result
			}
			return &paramserver.Ended{Incarnation: s.claims, Result: end}, store.Sighting{}, nil
		},
	}))
	return s
}

func (s *stage) launch(ctx context.Context, _ *messages.JobRef, watch jobprocess.Watch) (jobprocess.Process, error) {
	s.launches++
	if s.broken != nil {
		if err := s.broken(s.launches); err != nil {
			return nil, err
		}
	}
	p := &process{stage: s, ctx: ctx, watch: watch}
	s.processes = append(s.processes, p)
	return p, nil
}

// living returns the process that is there; nil: none.
func (s *stage) living() *process {
	for _, p := range s.processes {
		if p.alive() {
			return p
		}
	}
	return nil
}

// process is a played one. It trains an epoch each two seconds.
type process struct {
	stage *stage
	ctx   context.Context
	watch jobprocess.Watch

	dead, frozen bool
	begun        bool
	task         *messages.TrainTask
	incarnation  uint64
	seq          uint64
	told         []*messages.JobEvent
	size         jobprocess.Size
	sizes        []jobprocess.Size
	ending       bool
	busy         uint32
}

func (p *process) alive() bool { return !p.dead && p.ctx.Err() == nil }

func (p *process) answer() error {
	if !p.alive() || p.frozen {
		return fault.New("process.ask", fault.Unavailable, "it does not answer")
	}
	return nil
}

func (p *process) Start(_ context.Context, task *messages.TrainTask, size jobprocess.Size) error {
	if q := p.stage.quits; q != nil && q(p) {
		p.die("ended with exit status 1: no module named torch")
	}
	if err := p.answer(); err != nil || p.begun {
		return err
	}
	if p.stage.owner != nil {
		return p.stage.owner
	}
	p.begun, p.task, p.size = true, task, size
	p.claim()
	p.stage.At(2*time.Second, p.epoch)
	return nil
}

func (p *process) claim() {
	p.stage.claims++
	p.incarnation, p.seq = p.stage.claims, 0
	p.say(&messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{Epoch: p.stage.done}}})
}

func (p *process) Resize(_ context.Context, size jobprocess.Size) error {
	if err := p.answer(); err != nil {
		return err
	}
	p.size = size
	p.sizes = append(p.sizes, size)
	return nil
}

func (p *process) Stop(_ context.Context, reason string) error {
	if err := p.answer(); err != nil {
		return err
	}
	p.end(&messages.JobResult{Phase: messages.Phase_PHASE_STOPPED, Failure: &messages.Failure{Text: reason}})
	return nil
}

func (p *process) Check(context.Context) (uint32, error) { return p.busy, p.answer() }
func (p *process) Kill()                                 { p.die("was killed by signal 9 (SIGKILL)") }

func (p *process) die(how string) {
	if !p.dead {
		p.dead = true
		p.watch.Exited(how)
	}
}

// say tells an event, and now and then those before it again.
func (p *process) say(e *messages.JobEvent) {
	p.seq++
	e.Job, e.Seq = &messages.JobRef{Id: "j", Incarnation: p.incarnation}, p.seq
	p.told = append(p.told, e)
	events := []*messages.JobEvent{e}
	if p.stage.Rand().IntN(4) == 0 {
		events = append([]*messages.JobEvent{{Job: &messages.JobRef{Id: "j"}, Seq: 1}}, p.told...)
	}
	p.watch.Events(events)
}

func (p *process) epoch() {
	if p.ending || p.answer() != nil {
		return
	}
	if p.stage.Rand().IntN(8) == 0 { // its TrainJob crashed
		p.claim()
		p.stage.At(2*time.Second, p.epoch)
		return
	}
	n := p.stage.done + 1
	p.say(&messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: n, ModelVersion: uint64(n)}}})
	p.say(&messages.JobEvent{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{
		Record: &messages.EpochRecord{Epoch: n, Samples: 100, Parallelism: p.size.Parallelism, TrainingS: 2},
	}}})
	if p.stage.done = n; n == p.task.GetEpochs() {
		p.end(&messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED})
		return
	}
	p.stage.At(2*time.Second, p.epoch)
}

func (p *process) end(result *messages.JobResult) {
	if p.ending {
		return
	}
	p.ending = true
	for n := range p.stage.done {
		result.Epochs = append(result.Epochs, &messages.EpochRecord{Epoch: n + 1})
	}
	p.stage.result = result
	p.say(&messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: result}}})
	if p.stage.Rand().IntN(3) > 0 { // else it stays until it is killed
		p.stage.At(time.Duration(p.stage.Rand().IntN(1000))*time.Millisecond, func() { p.die("ended with exit status 0") })
	}
}

// boss plays the Scheduler.
type boss struct {
	stage    *stage
	start    *messages.StartJob
	running  bool
	acked    uint64
	stop     *messages.StopJob
	stops    []*messages.StopJobReply
	asked    []*messages.RequestParallelism
	finished *messages.JobFinished
	ends     int
}

type bossTick struct{}

func (b *boss) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.StartJob: // from the test
		b.start = m
		b.stage.Rim().SendAfter(0, ctx.Self(), &bossTick{})
	case *bossTick:
		b.tick(ctx)
		b.stage.Rim().SendAfter(time.Second, ctx.Self(), &bossTick{})
	case *messages.StartJobReply:
		b.running = b.running || m.GetFailure() == nil
	case *messages.ResizeJobReply:
		if m.GetFailure() == nil {
			b.acked = max(b.acked, m.GetSeq())
		}
	case *messages.StopJobReply:
		b.stops = append(b.stops, m)
	case *messages.RequestParallelism:
		if len(b.asked) == 0 || m.GetEpoch() > b.asked[len(b.asked)-1].GetEpoch() { // else it is a repeat
			b.asked = append(b.asked, m)
			b.resize(b.start.GetSize().GetParallelism() + 1)
		}
		ctx.Respond(&messages.RequestParallelismReply{Job: m.GetJob(), Epoch: m.GetEpoch(), Size: b.start.GetSize()})
	case *messages.JobFinished:
		if b.finished == nil {
			b.ends++
		}
		b.finished = m
		ctx.Respond(&messages.JobFinishedReply{Job: m.GetJob()})
	}
}

// resize makes the next size, in which each function has a slot.
func (b *boss) resize(n uint32) *messages.JobSize {
	size := &messages.JobSize{Term: 1, Seq: b.start.GetSize().GetSeq() + 1, Parallelism: n, Grants: []*messages.SlotGrant{{Node: "here", Slots: n}}}
	b.start = &messages.StartJob{JobId: "j", Task: b.start.GetTask(), Size: size}
	return size
}

func (b *boss) tick(ctx actor.Context) {
	switch {
	case b.finished != nil:
	case !b.running:
		ctx.Request(b.stage.server, b.start)
	case b.stop != nil:
		ctx.Request(b.stage.server, b.stop)
	case b.acked < b.start.GetSize().GetSeq():
		ctx.Request(b.stage.server, &messages.ResizeJob{Job: &messages.JobRef{Id: "j"}, Size: b.start.GetSize()})
	}
}

// begin submits the job.
func (s *stage) begin(options *messages.TrainOptions) {
	s.Send(actor.NewPID("nonhost", "scheduler"), &messages.StartJob{
		JobId: "j", Task: &messages.TrainTask{Epochs: epochs, Options: options},
		Size: &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "here", Slots: 2}}},
	})
}
