package scheduler_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// storm is what happens to messages in most simulations here.
var storm = testkit.Faults{Drop: 0.15, Duplicate: 0.15, Delay: 0.3, MaxDelay: 3 * time.Second}

func throughput(t testing.TB) scheduler.Policy {
	policy, err := scheduler.NewPolicy("throughput")
	require.NoError(t, err)
	return policy
}

func simulate(t *testing.T, run func(t *testing.T, seed uint64)) {
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { run(t, seed) })
	}
}

// randomTask returns a task that is sound, whatever the draw.
func randomTask(w *world) *messages.TrainTask {
	rng := w.sim.Rand()
	o := &messages.TrainOptions{Priority: int32(rng.IntN(3)), StaticParallelism: rng.IntN(3) == 0}
	if rng.IntN(2) == 0 {
		o.DefaultParallelism = uint32(1 + rng.IntN(8))
	}
	if rng.IntN(3) == 0 {
		o.MinParallelism = 1
	}
	if rng.IntN(3) == 0 {
		o.MaxParallelism = max(o.DefaultParallelism, uint32(1+rng.IntN(6)))
	}
	return &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: uint32(1 + rng.IntN(6)), Options: o}
}

// Whatever happens to messages, hosts and jobs: every job ends, none starts
// twice, and no slot is granted twice.
func TestEveryJobEndsAndNoneStartsTwice(t *testing.T) {
	simulate(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, throughput(t))
		rng := w.sim.Rand()
		w.sim.Faults, w.crashes = storm, 0.02
		w.host("n1", 4)
		w.host("n2", 3)
		for i := range 6 { // hosts go and come back, with other slots
			at, node := time.Duration(5+10*i+rng.IntN(10))*time.Second, fmt.Sprintf("n%d", 1+rng.IntN(2))
			w.sim.At(at, func() { w.hostGone(node, rng.IntN(2) == 0) })
			w.sim.At(at+time.Duration(1+rng.IntN(20))*time.Second, func() { w.host(node, uint32(1+rng.IntN(5))) })
		}
		w.sim.At(2*time.Minute, func() { w.host("n1", 2) })
		const jobs = 12
		var ids []string
		for i := range jobs {
			w.sim.At(time.Duration(rng.IntN(40_000))*time.Millisecond, func() {
				w.client(fmt.Sprint(i), randomTask(w), func(id string, client *testkit.Probe) {
					ids = append(ids, id)
					if rng.IntN(3) == 0 {
						var stop func()
						stop = func() {
							if w.ended(id) == nil {
								client.Send(w.scheduler, &messages.StopJob{JobId: id, Reason: "enough"})
								w.sim.At(time.Second, stop)
							}
						}
						w.sim.At(time.Duration(rng.IntN(60_000))*time.Millisecond, stop)
					}
				})
			})
		}
		w.sim.RunUntil(func() bool {
			if len(ids) < jobs {
				return false
			}
			for _, id := range ids {
				if w.ended(id) == nil {
					return false
				}
			}
			return true
		}, time.Hour)
		for _, id := range ids {
			if end := w.ends[id]; end != nil {
				require.Equal(t, end.GetPhase(), w.ended(id).GetPhase(), "job %s ends as its incarnation said", id)
			}
		}
		w.sim.RunUntil(func() bool { // nothing is left behind
			queued, outboxes := w.kept()
			return queued == 0 && outboxes == 0 && len(w.alive) == 0
		}, time.Minute)
		w.sim.Faults = testkit.Faults{}
		w.sim.Advance(10 * time.Second)
		w.sim.Cut = func(_, _ *actor.PID, msg any) bool { // and all is quiet, but for the hosts
			require.IsType(t, &messages.HostReported{}, msg)
			return false
		}
		w.sim.Advance(10 * time.Second)
	})
}

// Jobs of one priority start in the order of their submission, whatever else is
// lost or late.
func TestQueueKeepsItsOrder(t *testing.T) {
	simulate(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, throughput(t))
		w.sim.Faults = storm
		var order []string
		w.sim.Cut = func(_, _ *actor.PID, msg any) bool {
			if m, ok := msg.(*messages.StartJob); ok && (len(order) == 0 || order[len(order)-1] < m.GetJobId()) {
				order = append(order, m.GetJobId())
			}
			return false
		}
		for range 8 {
			testkit.Ask[*messages.SubmitJobReply](w.sim, w.scheduler, &messages.SubmitJob{
				Key:  fmt.Sprint(w.sim.Rand().Uint64()),
				Task: &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 1, Options: &messages.TrainOptions{DefaultParallelism: 2}},
			})
		}
		w.host("n1", 3)
		w.sim.RunUntil(func() bool { return w.ended("j08") != nil }, time.Hour)
		require.Equal(t, []string{"j01", "j02", "j03", "j04", "j05", "j06", "j07", "j08"}, order)
	})
}

// Cancelling a thousand queued jobs gives all capacity back to the next one.
func TestCancellingAThousandQueuedJobs(t *testing.T) {
	w := newWorld(t, 1, throughput(t))
	submit := func(key string) string {
		return testkit.Ask[*messages.SubmitJobReply](w.sim, w.scheduler, &messages.SubmitJob{
			Key: key, Task: &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 1, Options: &messages.TrainOptions{StaticParallelism: true}},
		}).GetJobId()
	}
	var ids []string
	for i := range 1000 {
		ids = append(ids, submit(fmt.Sprint(i)))
	}
	w.sim.Faults = storm // the events of all must arrive nevertheless
	for _, i := range w.sim.Rand().Perm(len(ids)) {
		reply := testkit.Ask[*messages.StopJobReply](w.sim, w.scheduler, &messages.StopJob{JobId: ids[i], Reason: "no more"})
		require.Nil(t, reply.GetFailure())
	}
	last := submit("last")
	w.host("n1", 4)
	w.sim.RunUntil(func() bool { return w.ended(last) != nil }, time.Minute)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, w.ended(last).GetPhase())
	require.Equal(t, map[string]int{last: 1}, w.births, "what was cancelled never started")
	w.sim.RunUntil(func() bool { jobs, outboxes := w.kept(); return jobs+outboxes == 0 }, time.Minute)
	for _, id := range ids {
		require.Equal(t, messages.Phase_PHASE_STOPPED, w.ended(id).GetPhase())
		require.Equal(t, "no more", w.ended(id).GetFailure().GetText())
	}
}

// wild is a policy that answers whatever comes to its mind.
type wild struct{ answer func() float64 }

func (wild) Name() string { return "wild" }

func (p wild) Parallelism([]scheduler.Measurement) float64 { return p.answer() }

// A policy may answer anything: N stays within the job's bounds (played jobs
// check it), and a job is warned once.
func TestWildPolicyIsClamped(t *testing.T) {
	answers := []float64{0, -1, 1e9, math.NaN(), math.Inf(1), math.Inf(-1), 0.49, 3}
	simulate(t, func(t *testing.T, seed uint64) {
		policy := &wild{}
		w := newWorld(t, seed, policy)
		policy.answer = func() float64 { return answers[w.sim.Rand().IntN(len(answers))] }
		w.sim.Faults = storm
		warnings := map[string]map[uint32]bool{} // by job, the epochs that warned
		w.sim.Cut = func(_, _ *actor.PID, msg any) bool {
			if m, ok := msg.(*messages.RequestParallelismReply); ok && m.GetWarning() != "" {
				id := m.GetJob().GetId()
				if warnings[id] == nil {
					warnings[id] = map[uint32]bool{}
				}
				warnings[id][m.GetEpoch()] = true
			}
			return false
		}
		w.host("n1", 5)
		left := 3
		for i := range left {
			w.client(fmt.Sprint(i), &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 20, Options: &messages.TrainOptions{
				MinParallelism: uint32(1 + i%2), MaxParallelism: uint32(2 * i),
			}}, func(string, *testkit.Probe) {})
		}
		w.sim.RunUntil(func() bool { return w.ended("j01") != nil && w.ended("j02") != nil && w.ended("j03") != nil }, time.Hour)
		for id, epochs := range warnings {
			require.Len(t, epochs, 1, "warnings of %s", id)
		}
	})
}

// One lost message of each type, one at a time, delays a job but never hangs it.
func TestNoSingleLossHangsAJob(t *testing.T) {
	for _, name := range []string{
		"StartJob", "StartJobReply", "ResizeJob", "ResizeJobReply", "RequestParallelism", "RequestParallelismReply",
		"JobFinished", "JobFinishedReply", "JobEvent", "JobEventReply", "HostReported",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, throughput(t))
			lost := map[[2]string]bool{}
			w.sim.Cut = func(from, to *actor.PID, msg any) bool {
				link := [2]string{from.GetId(), to.GetId()}
				if fmt.Sprintf("%T", msg) != "*messages."+name || lost[link] {
					return false
				}
				lost[link] = true
				return true
			}
			w.host("n1", 6)
			w.client("c", &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 3}, func(string, *testkit.Probe) {})
			w.sim.RunUntil(func() bool { return w.ended("j01") != nil && w.births["j01"] == 1 }, time.Minute)
			w.sim.RunUntil(func() bool { jobs, outboxes := w.kept(); return jobs+outboxes+len(w.alive) == 0 }, 20*time.Second)
			require.NotEmpty(t, lost)
		})
	}
}

// A JobFinished that never arrives is caught up with by asking.
func TestPollCatchesUpOnALostEnd(t *testing.T) {
	w := newWorld(t, 1, throughput(t))
	w.sim.Cut = func(_, to *actor.PID, msg any) bool {
		_, end := msg.(*messages.JobFinished)
		return end && to.GetId() == "scheduler"
	}
	w.host("n1", 2)
	w.client("c", &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 1}, func(string, *testkit.Probe) {})
	w.sim.RunUntil(func() bool { jobs, _ := w.kept(); return w.births["j01"] == 1 && jobs == 0 }, time.Minute)
}

// What a Scheduler keeps does not grow with the jobs it has seen.
func TestEndedJobsAreForgottenInTime(t *testing.T) {
	script := scheduler.NewScript()
	script.Do("host n1 1")
	for i := 1; i <= scheduler.MaxEnded+500; i++ {
		script.Do("submit")
		script.Do(fmt.Sprintf("finished j%d", i))
	}
	jobs, keys, ended := script.Remembered()
	require.Zero(t, jobs)
	require.Equal(t, scheduler.MaxEnded, keys)
	require.Equal(t, scheduler.MaxEnded, ended)
	require.Contains(t, script.Do("stop j1"), "there is no job j1")
	require.Contains(t, script.Do("stop j501"), "job j501 has ended already")
}

func TestStoppingTheSchedulerLeavesNoTimer(t *testing.T) {
	sim := testkit.New(t, 1)
	probe := sim.Probe("peer")
	peer := func() *actor.PID { return probe.PID }
	pid := sim.Spawn("scheduler", scheduler.Props(scheduler.Deps{
		Log: zap.NewNop().WithOptions(zap.Development()), Rim: sim.Rim(), Policy: throughput(t), NewID: func() string { return "j1" }, Node: "n1", Term: 1, ParameterServer: func(string) *actor.PID { return peer() }, Journal: peer,
	}))
	sim.Advance(3 * time.Second)
	sim.Stop(pid)
	sim.Run(time.Minute) // fails if a timer goes on
}
