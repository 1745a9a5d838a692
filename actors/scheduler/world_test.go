package scheduler_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// second is a timer of the world's actors.
type second struct{}

// world is a company with a real Scheduler and ParameterServer; its hosts,
// jobs, clients and journal are played.
type world struct {
	t         testing.TB
	sim       *testkit.Sim
	scheduler *actor.PID
	server    *actor.PID
	journal   *actor.PID
	check     func() error
	kept      func() (jobs, outboxes int)

	slots   map[string]uint32            // of hosts that are up, by node
	boots   map[string]int               // times each came up
	held    map[string]map[string]uint32 // slots in use, by node and job
	crashes float64                      // share of a job's seconds in which it panics

	claims map[string]uint64 // incarnations owned, by job
	births map[string]int    // incarnations begun, by job
	alive  map[string]uint64 // incarnation that lives, by job
	ends   map[string]*messages.JobResult
	events map[string]map[[2]uint64]*messages.JobEvent // by job and place
}

func newWorld(t testing.TB, seed uint64, policy scheduler.Policy) *world {
	w := &world{
		t: t, sim: testkit.New(t, seed),
		slots: map[string]uint32{}, boots: map[string]int{}, held: map[string]map[string]uint32{},
		claims: map[string]uint64{}, births: map[string]int{}, alive: map[string]uint64{}, ends: map[string]*messages.JobResult{},
		events: map[string]map[[2]uint64]*messages.JobEvent{},
	}
	ids := 0
	journal := func() *actor.PID { return w.journal }
	w.journal = w.sim.Spawn("journal", actor.PropsFromFunc(w.keep))
	w.scheduler = w.sim.Spawn("scheduler", scheduler.Observed(scheduler.Deps{
		Log: zap.NewNop().WithOptions(zap.Development()), Rim: w.sim.Rim(), Policy: policy, Journal: journal,
		NewID: func() string { ids++; return fmt.Sprintf("j%02d", ids) },
		Node:  "n1", Term: 1,
		ParameterServer: func(string) *actor.PID { return w.server },
	}, func(check func() error, kept func() (int, int)) { w.check, w.kept = check, kept }))
	w.server = w.sim.Spawn("paramserver", paramserver.Props(paramserver.Deps{
		Log: zap.NewNop().WithOptions(zap.Development()), Rim: w.sim.Rim(), Journal: journal,
		Own:       w.own,
		End:       w.end,
		Scheduler: func() *actor.PID { return w.scheduler },
		Nodes:     func() []string { return nil },
	}))
	w.sim.Check(func() error { return w.check() })
	return w
}

// own plays the store.
func (w *world) own(id string, _ *messages.StartJob, _ store.Sighting) (*paramserver.Owned, store.Sighting, error) {
	w.claims[id]++
	return &paramserver.Owned{
		Incarnation: w.claims[id],
		Job:         func(ref *messages.JobRef, start *messages.StartJob) *actor.Props { return playedJob(w, ref, start) },
		Release:     func() {}, Discard: func() {},
	}, store.Sighting{}, nil
}

// end plays the store, too.
func (w *world) end(id string, _ *messages.StartJob, end *messages.JobResult, over uint64, _ store.Sighting) (*paramserver.Ended, store.Sighting, error) {
	w.claims[id] = max(w.claims[id], over) + 1
	return &paramserver.Ended{Incarnation: w.claims[id], Result: end}, store.Sighting{}, nil
}

// keep plays the Journal.
func (w *world) keep(ctx actor.Context) {
	if m, ok := ctx.Message().(*messages.JobEvent); ok {
		id := m.GetJob().GetId()
		if w.events[id] == nil {
			w.events[id] = map[[2]uint64]*messages.JobEvent{}
		}
		w.events[id][[2]uint64{m.GetJob().GetIncarnation(), m.GetSeq()}] = m
		through := uint64(0)
		for w.events[id][[2]uint64{m.GetJob().GetIncarnation(), through + 1}] != nil {
			through++
		}
		ctx.Respond(&messages.JobEventReply{Job: m.GetJob(), Seq: through})
	}
}

// ended returns the last JobEnded that the journal has of a job.
func (w *world) ended(id string) *messages.JobResult {
	var last [2]uint64
	var result *messages.JobResult
	for place, e := range w.events[id] {
		if e.GetEnded() != nil && slices.Compare(place[:], last[:]) > 0 {
			last, result = place, e.GetEnded().GetResult()
		}
	}
	return result
}

// host lets a node come up with so many slots.
func (w *world) host(node string, slots uint32) {
	w.boots[node]++
	w.slots[node] = slots
	boot, seq := fmt.Sprintf("%s.%d", node, w.boots[node]), uint64(0)
	w.sim.Spawn(fmt.Sprintf("host/%s", boot), actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started, second:
			if boot != fmt.Sprintf("%s.%d", node, w.boots[node]) || w.slots[node] == 0 {
				return // it is down
			}
			seq++
			report := &messages.HostReported{Node: node, Boot: boot, Seq: seq, Slots: w.slots[node]}
			for _, id := range slices.Sorted(maps.Keys(w.held[node])) {
				for range w.held[node][id] {
					report.Held = append(report.Held, &messages.AttemptRef{Job: &messages.JobRef{Id: id, Incarnation: 1}})
				}
			}
			ctx.Request(w.scheduler, report)
			w.sim.Rim().SendAfter(time.Second, ctx.Self(), second{})
		}
	}))
}

// hostGone lets a node go down; it may have the time to say so.
func (w *world) hostGone(node string, politely bool) {
	if w.slots[node] == 0 {
		return
	}
	boot := fmt.Sprintf("%s.%d", node, w.boots[node])
	delete(w.slots, node)
	delete(w.held, node)
	if politely {
		w.sim.Probe("goodbye/"+boot).Send(w.scheduler, &messages.HostLeft{Node: node, Boot: boot})
	}
}

// client submits a task, again each second until it is answered.
func (w *world) client(name string, task *messages.TrainTask, then func(id string, client *testkit.Probe)) {
	done := false
	client := w.sim.Probe("client/" + name)
	client.Answer = func(msg any) any {
		if reply, ok := msg.(*messages.SubmitJobReply); ok && !done {
			require.Nil(w.t, reply.GetFailure())
			done = true
			then(reply.GetJobId(), client)
		}
		return nil
	}
	var submit func()
	submit = func() {
		if !done {
			client.Send(w.scheduler, &messages.SubmitJob{Key: name, Task: task})
			w.sim.At(time.Second, submit)
		}
	}
	submit()
}

// job plays an incarnation of a TrainJob: an epoch takes it three seconds in
// which it has slots.
type job struct {
	w     *world
	ref   *messages.JobRef
	task  *messages.TrainTask
	size  *messages.JobSize
	epoch uint32
	work  int // seconds of the epoch done
	asked int // seconds since it asked for its next N; 0: it did not
	end   *messages.JobFinished
	taken bool
	acked bool
}

func playedJob(w *world, ref *messages.JobRef, start *messages.StartJob) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor {
		return &job{w: w, ref: ref, task: start.GetTask(), size: start.GetSize(), epoch: 1}
	})
}

func (j *job) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.born()
		j.tickAgain(ctx)
	case second:
		j.onSecond(ctx)
	case *messages.ResizeJob:
		require.Equal(j.w.t, j.ref.GetIncarnation(), m.GetJob().GetIncarnation(), "the size is for this incarnation")
		j.resize(m.GetSize())
		ctx.Respond(&messages.ResizeJobReply{Job: j.ref, Seq: j.size.GetSeq()})
	case *messages.RequestParallelismReply:
		if m.GetEpoch() == j.epoch && j.asked > 0 {
			j.resize(m.GetSize())
			j.nextEpoch(ctx)
		}
	case *messages.StopJob:
		j.finish(ctx, messages.Phase_PHASE_STOPPED)
		ctx.Respond(&messages.StopJobReply{})
	case *messages.JobFinishedReply:
		j.taken = true
	case *messages.JobEventReply:
		j.acked = true
	case *actor.Stopping:
		j.died()
	}
	if j.taken && j.acked {
		ctx.Stop(ctx.Self())
	}
}

func (j *job) born() {
	w, id := j.w, j.ref.GetId()
	w.births[id]++
	require.EqualValues(w.t, w.births[id], j.ref.GetIncarnation(), "job %s starts each incarnation once", id)
	require.Zero(w.t, w.alive[id], "job %s lives once at a time", id)
	require.Nil(w.t, w.ends[id], "job %s starts after its end", id)
	w.alive[id] = j.ref.GetIncarnation()
	j.hold()
}

// died lets the job's functions wind up.
func (j *job) died() {
	w, id := j.w, j.ref.GetId()
	delete(w.alive, id)
	w.sim.At(time.Duration(w.sim.Rand().IntN(2000))*time.Millisecond, func() {
		if w.alive[id] == 0 {
			for _, held := range w.held {
				delete(held, id)
			}
		}
	})
}

func (j *job) onSecond(ctx actor.Context) {
	j.tickAgain(ctx)
	switch {
	case j.end != nil:
		j.tell(ctx)
		return
	case j.w.sim.Rand().Float64() < j.w.crashes:
		panic(errors.New("nil pointer"))
	case j.asked > 2:
		j.nextEpoch(ctx)
	case j.asked > 0:
		j.asked++
	case len(j.size.GetGrants()) > 0:
		j.work++
	}
	if j.work == 3 && j.asked == 0 {
		j.asked = 1
		ctx.Request(j.w.scheduler, &messages.RequestParallelism{
			Job: j.ref, Epoch: j.epoch, Parallelism: j.size.GetParallelism(),
			Seconds: 1 + j.w.sim.Rand().Float64(), Samples: 1437,
		})
	}
}

func (j *job) nextEpoch(ctx actor.Context) {
	j.epoch, j.work, j.asked = j.epoch+1, 0, 0
	if j.epoch > j.task.GetEpochs() {
		j.finish(ctx, messages.Phase_PHASE_SUCCEEDED)
	}
}

func (j *job) finish(ctx actor.Context, phase messages.Phase) {
	if j.end == nil {
		j.end = &messages.JobFinished{Job: j.ref, Result: &messages.JobResult{Phase: phase}}
		j.w.ends[j.ref.GetId()] = j.end.GetResult()
		j.tell(ctx)
	}
}

func (j *job) tell(ctx actor.Context) {
	if !j.taken {
		ctx.Request(ctx.Parent(), j.end)
	}
	ctx.Request(j.w.journal, &messages.JobEvent{
		Job: j.ref, Seq: 1, What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: j.end.GetResult()}},
	})
}

// resize takes in a size and checks what every size must keep to.
func (j *job) resize(size *messages.JobSize) {
	if size.GetSeq() <= j.size.GetSeq() {
		return
	}
	o := j.task.GetOptions()
	n := size.GetParallelism()
	require.GreaterOrEqual(j.w.t, n, max(1, o.GetMinParallelism()))
	require.LessOrEqual(j.w.t, n, uint32(65536))
	if hi := o.GetMaxParallelism(); hi > 0 {
		require.LessOrEqual(j.w.t, n, hi)
	}
	if o.GetStaticParallelism() {
		require.Equal(j.w.t, j.size.GetParallelism(), n, "a static job keeps its N")
	}
	j.size = size
	j.hold()
}

// hold lets the job use all the slots that it was granted.
func (j *job) hold() {
	id := j.ref.GetId()
	for _, held := range j.w.held {
		delete(held, id)
	}
	for _, g := range j.size.GetGrants() {
		if j.w.slots[g.GetNode()] > 0 {
			if j.w.held[g.GetNode()] == nil {
				j.w.held[g.GetNode()] = map[string]uint32{}
			}
			j.w.held[g.GetNode()][id] = g.GetSlots()
		}
	}
}

func (j *job) tickAgain(ctx actor.Context) {
	j.w.sim.Rim().SendAfter(time.Second, ctx.Self(), second{})
}
