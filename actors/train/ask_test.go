package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// What an incarnation that died has used no state of it need name: a node that the
// next one has no slot of is asked, until it answers, lets go of what it has, and is
// told of the end; so is one that was out of sight when the job was taken up.
func TestEveryNodeLetsGoOfWhatAnIncarnationThatDiedHasLeft(t *testing.T) {
	for name, late := range map[string]bool{"it is there": false, "it was out of sight": true} {
		t.Run(name, func(t *testing.T) {
			var asked int
			var released []*messages.ReleaseTensors
			join := func(s *stage) {
				n2 := s.sim.Probe("n2")
				n2.Answer = func(msg any) any {
					switch m := msg.(type) {
					case *messages.AskState:
						if asked++; asked > 2 { // what came before is lost
							return &messages.AskStateReply{Node: "n2", Job: m.GetJob(), Holds: true}
						}
					case *messages.ReleaseTensors:
						released = append(released, m)
						if m.GetEverything() {
							return &messages.ReleaseTensorsReply{Job: m.GetStep().GetJob(), Node: "n2"}
						}
					}
					return nil
				}
				s.others = map[string]*testkit.Probe{"n2": n2}
			}
			k := &keeper{}
			first := newStageFrom(t, 1, sizeOf(1, 2, 2), taskOf(6, nil), &vault{}, nil, k.listen)
			first.end()
			before := []func(*stage){k.put(0)}
			if !late {
				before = append(before, join)
			}
			s := newStageFrom(t, 1, sizeOf(1, 2, 2), taskOf(6, nil), &vault{}, k.states[0], before...)
			if late {
				join(s)
			}
			s.sim.Advance(4 * time.Second)
			require.Equal(t, 3, asked)
			require.NotEmpty(t, released, "at once, though no round has ended since")
			require.False(t, released[0].GetEverything())
			require.Contains(t, released[0].GetKeep(), k.states[0].GetModel().GetKey())
			require.Zero(t, released[0].GetStep().GetRound(), "what runs now is none of it")
			s.end()
			s.sim.Advance(2 * time.Second)
			require.True(t, released[len(released)-1].GetEverything())
			require.Equal(t, 3, asked)
		})
	}
}
