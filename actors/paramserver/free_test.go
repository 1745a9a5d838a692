package paramserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// freed has hosts n1 and n2 be there, and counts how often either is told that an
// incarnation has ended. What answers, once told, is as the test says.
func (s *stage) freed(t *testing.T, answer func() string) *[]uint64 {
	var told []uint64
	s.nodes = []string{"n1", "n2"}
	s.host.Answer = func(msg any) any {
		m, ok := msg.(*messages.ReleaseTensors)
		require.True(t, ok && m.GetEverything())
		told = append(told, m.GetStep().GetJob().GetIncarnation())
		if node := answer(); node != "" {
			return &messages.ReleaseTensorsReply{Job: m.GetStep().GetJob(), Node: node}
		}
		return nil
	}
	return &told
}

// The hosts of all nodes hear of an end that no TrainJob is left to tell, until they
// have answered: one that is decided here, and one that the store has of an owner
// that is gone.
func TestHostsLetGoOfAJobThatEndsWithoutATrainJob(t *testing.T) {
	for name, end := range map[string]func(*stage){
		"it died":        func(s *stage) { s.dying(false, nil) },
		"it was stopped": func(s *stage) { s.dying(true, nil) },
		"its node did": func(s *stage) {
			s.ended, s.endedBy = &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED}, 1
			s.start("j1", 1, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			answers := "n1"
			told := s.freed(t, func() string { return answers })
			end(s)
			s.sim.Advance(5 * time.Second)
			require.Greater(t, len(*told), 4, "n2 again and again")
			require.Less(t, len(*told), 9, "n1 once")
			require.Equal(t, s.claims["j1"], (*told)[0])
			answers = "n2"
			s.sim.Advance(2 * time.Second)
			last := len(*told)
			s.sim.Advance(time.Minute)
			require.Len(t, *told, last)
		})
	}
}

// Hosts that do not answer are not told for ever, nor once the job begins anew.
func TestHostsAreToldOfAnEndForAWhile(t *testing.T) {
	for name, anew := range map[string]bool{"it has ended": false, "it begins anew": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			told := s.freed(t, func() string { return "" })
			s.dying(true, nil)
			s.sim.Drain()
			require.Len(t, *told, 2)
			if anew {
				end := testkit.Expect[*messages.JobFinished](s.scheduler)
				s.sim.Send(s.server, &messages.JobFinishedReply{Job: end.GetJob()})
				s.sim.Drain()
				s.act = nil
				again := startJob("j1", 1, 5)
				again.Key, again.AfterIncarnation = "b", end.GetJob().GetIncarnation()
				s.sim.Send(s.server, again)
				s.sim.Advance(time.Minute)
				require.Len(t, s.born, 2)
				require.Len(t, *told, 2)
				return
			}
			s.sim.Advance(time.Minute)
			require.InDelta(t, 2*30, len(*told), 4)
		})
	}
}

// What is another's has not ended.
func TestHostsKeepWhatAnotherNodeGoesOnWith(t *testing.T) {
	s := newStage(t, 1)
	told := s.freed(t, func() string { return "" })
	s.refuse = func(store.Sighting) (store.Sighting, error) {
		return another(int(s.sim.Now().Sub(testkit.Epoch) / (3 * time.Second))), fault.New("job.claim", fault.Conflict, "it runs on n9")
	}
	s.run("j1")
	end := testkit.Expect[*messages.JobFinished](s.scheduler)
	require.Equal(t, messages.Phase_PHASE_TAKEN_OVER, end.GetResult().GetPhase())
	s.sim.Advance(time.Minute)
	require.Empty(t, *told)
}
