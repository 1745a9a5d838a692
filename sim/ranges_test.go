package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/invoker"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// patient is a runner whose attempts run until the test ends them.
type patient struct {
	runs []*messages.Invoke
	done func(*messages.Invoked, error)
}

func (*patient) Starts(*messages.Invoke) bool { return false }

func (*patient) Elsewhere(*messages.Invoke) bool { return false }

func (p *patient) Start(inv *messages.Invoke, _ int, _ func(), done func(*messages.Invoked, error)) context.CancelCauseFunc {
	p.runs, p.done = append(p.runs, inv), done
	return func(error) {}
}

// An attempt at positions that came back in a million ranges reaches the host of
// another node whole, though messages get lost, and runs once; while it runs, its
// lease does not take them along again. A host that was restarted, and knows of
// nothing any more, gets them again.
func TestAMillionRangesReachAnotherNode(t *testing.T) {
	for _, ranges := range []int{0, 10, 100_000, 1_000_000} {
		t.Run(fmt.Sprintf("%d ranges", ranges), func(t *testing.T) {
			s := testkit.New(t, 1)
			bytes := 0
			s.Cut = func(from, to *actor.PID, msg any) bool {
				if to.GetId() == "host" {
					require.LessOrEqual(t, proto.Size(msg.(proto.Message)), actorkit.MaxMessage)
					bytes += proto.Size(msg.(proto.Message))
				}
				return false
			}
			split := actorkit.Split{Log: zap.NewNop(), Far: func(to *actor.PID) bool { return to.GetId() == "host" }}
			runner, scheduler := &patient{}, s.Probe("scheduler")
			h := s.Spawn("host", host.Props(host.Deps{
				Log: zap.NewNop(), Rim: s.Rim(), Node: "n1", Boot: "b", Slots: 2, Runner: runner, Tensors: plane.NewMemory("n1"),
				Scheduler: func() *actor.PID { return scheduler.PID }, Options: []actor.PropsOption{split.Option()},
			}))
			var finished *messages.FunctionFinished
			var i *actor.PID
			s.Spawn("job", actor.PropsFromFunc(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case *actor.Started:
					i = ctx.Spawn(invoker.Props(invoker.Deps{
						Log: zap.NewNop(), Rim: s.Rim(), Host: func(string) *actor.PID { return h }, Options: []actor.PropsOption{split.Option()},
					}))
				case *messages.FunctionFinished:
					finished = m
				}
			}))
			s.Drain()
			inv := &messages.Invoke{
				Attempt: &messages.AttemptRef{Job: &messages.JobRef{Id: "j", Incarnation: 1}, Epoch: 1, Round: 1, Task: messages.Task_TASK_TRAIN, Attempt: 1},
				Node:    "n1", Plan: &messages.RoundPlan{},
			}
			for r := range ranges {
				inv.Ranges = append(inv.Ranges, &messages.Range{Lo: uint64(1_000_000 + 3*r), Hi: uint64(1_000_000 + 3*r + 1)})
			}
			want := proto.CloneOf(inv)
			s.Faults = testkit.Faults{Drop: 0.1, Duplicate: 0.1, Except: []string{"HostReported"}}
			s.Send(i, inv)
			s.RunUntil(func() bool { return len(runner.runs) > 0 }, 9*time.Second)
			require.True(t, proto.Equal(want, runner.runs[0]))

			s.Faults = testkit.Faults{}
			s.Advance(2 * time.Second)
			bytes = 0
			s.Advance(10 * time.Second)
			require.Less(t, bytes, 10*1000, "the lease")
			require.Len(t, runner.runs, 1)

			s.Crash(h, fmt.Errorf("a bug"))
			s.Send(h, &messages.AskState{Job: &messages.JobRef{Id: "other"}})
			s.Advance(3 * time.Second)
			require.Len(t, runner.runs, 2)
			require.True(t, proto.Equal(want, runner.runs[1]))
			runner.done(&messages.Invoked{Samples: 3}, nil)
			s.Advance(3 * time.Second)
			require.EqualValues(t, 3, finished.GetAnswer().GetSamples())
		})
	}
}
