package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// spread is a company of three nodes with two slots each.
func spread(t *testing.T) *scene {
	s := steady(t, 2)
	s.join(t, "n1", 2)
	s.join(t, "n2", 2)
	s.Sim.Advance(3 * time.Second)
	return s
}

// incarnations returns where those of a job have run, in order.
func (s *scene) incarnations(id string) (nodes []string) {
	for _, e := range s.watches[id].Events {
		if started := e.GetStarted(); started != nil {
			nodes = append(nodes, started.GetNode())
		}
	}
	return nodes
}

// model is what a job has trained.
func (s *scene) model(t *testing.T, id string) string {
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	return fmt.Sprint(saved.Model)
}

// long is a static job of two functions that takes half a minute.
func long() *messages.TrainTask {
	task := rounds(2)
	task.Epochs = 30
	return task
}

// undisturbed is the model of a long job that nothing happens to.
func undisturbed(t *testing.T) string {
	s := steady(t, 2)
	id := s.submit(t, long())
	s.Sim.RunUntil(s.allEnded, time.Hour)
	return s.model(t, id)
}

// The ParameterServers of all nodes share the jobs.
func TestJobsAreSharedByAllNodes(t *testing.T) {
	s := spread(t)
	var ids, homes []string
	for range 3 {
		ids = append(ids, s.submit(t, rounds(2)))
	}
	s.Sim.RunUntil(func() bool { return len(s.Jobs()) == 3 }, time.Minute)
	for _, id := range ids {
		homes = append(homes, s.Home(id))
	}
	slices.Sort(homes)
	require.Equal(t, []string{"local", "n1", "n2"}, homes)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	for _, id := range ids {
		s.verify(t, id)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase())
		require.Len(t, s.incarnations(id), 1)
	}
	s.leaves(t)
}

// elsewhere submits a job whose home is a node that has joined, and waits until it
// has merged twice.
func (s *scene) elsewhere(t *testing.T) (id, home string) {
	for home = "local"; home == "local"; home = s.Home(id) {
		id = s.submit(t, long())
		s.Sim.RunUntil(func() bool { return s.Home(id) != "" }, time.Minute)
	}
	s.Sim.RunUntil(func() bool { return len(merges(s.watches[id])) == 2 }, time.Minute)
	s.Sim.Advance(300 * time.Millisecond)
	return id, home
}

// A job goes on elsewhere when its node is lost: whether that is found or it is back
// before anybody has noticed. The model is as if nothing had happened.
func TestAJobOutlivesItsNode(t *testing.T) {
	want := undisturbed(t)
	for name, lose := range map[string]func(t *testing.T, s *scene, home string){
		"killed": func(_ *testing.T, s *scene, home string) { s.KillNode(s.Node(home), time.Second) },
		"killed, and back unnoticed": func(t *testing.T, s *scene, home string) {
			s.KillNode(s.Node(home), time.Hour)
			s.join(t, home, 2)
		},
		"left":                  func(_ *testing.T, s *scene, home string) { s.LeaveNode(s.Node(home)) },
		"cut off":               func(_ *testing.T, s *scene, home string) { s.CutNode(s.Node(home), time.Minute, 2*time.Second) },
		"cut off for a moment":  func(_ *testing.T, s *scene, home string) { s.CutNode(s.Node(home), 4*time.Second, 2*time.Second) },
		"missed, and never cut": func(_ *testing.T, s *scene, home string) { s.MissNode(s.Node(home), 3*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s := spread(t)
			id, home := s.elsewhere(t)
			since := s.Sim.Now()
			lose(t, s, home)
			s.Sim.RunUntil(s.allEnded, time.Hour)
			require.Less(t, s.Sim.Now().Sub(since), 70*time.Second)
			for id := range s.watches {
				s.verify(t, id)
				require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase(), "%v", s.watches[id].Result.GetFailure())
				require.Equal(t, want, s.model(t, id))
			}
			ran := s.incarnations(id)
			if name == "left" {
				require.Less(t, s.Sim.Now().Sub(since), 36*time.Second, "the others go on at once")
			}
			if name == "missed, and never cut" {
				require.Equal(t, []string{home}, ran, "it is where it was, and nothing was done again")
				return
			}
			require.Len(t, ran, 2)
			require.Equal(t, home, ran[0])
		})
	}
}

// A job that runs on another node than the one that leads goes on there when that one
// is started again: nothing of it is done twice. One that was at home there goes on,
// too, and one that waited is not forgotten.
func TestJobsOutliveTheServer(t *testing.T) {
	want := undisturbed(t)
	for _, away := range []time.Duration{time.Second, 25 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			s := spread(t)
			var ids []string
			for range 4 { // for six slots
				ids = append(ids, s.submit(t, long()))
			}
			s.Sim.RunUntil(func() bool { return len(s.Jobs()) == 3 && len(merges(s.watches[ids[2]])) > 1 }, time.Minute)
			homes := map[string]string{}
			for _, id := range ids {
				homes[id] = s.Home(id)
			}
			s.RestartLeader(away)
			s.Sim.RunUntil(s.allEnded, time.Hour)
			for _, id := range ids {
				s.verify(t, id)
				require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase(), "%v", s.watches[id].Result.GetFailure())
				require.Equal(t, want, s.model(t, id))
				if home := homes[id]; home == "n1" || home == "n2" {
					for _, ran := range s.incarnations(id) {
						require.Equal(t, home, ran)
					}
					for _, e := range s.watches[id].Events {
						require.LessOrEqual(t, e.GetJob().GetIncarnation(), uint64(1), "%v", e)
					}
				}
			}
			s.leaves(t)
		})
	}
}
