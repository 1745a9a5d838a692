package train

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// A function runs where what it needs lies, if others would come first elsewhere.
func TestAFunctionRunsAtItsHome(t *testing.T) {
	grants := []*messages.SlotGrant{{Node: "a", Slots: 2}, {Node: "b", Slots: 2}}
	s := newStep(&messages.AttemptRef{Job: &messages.JobRef{Id: "job"}}, &messages.RoundPlan{}, make([]ranges, 4), time.Time{})
	homes := []string{"b", "a", "b", "a"}
	for function, home := range homes {
		s.stay(uint32(function), home)
	}
	s.settle(grants)
	var nodes []string
	for _, attempt := range s.dispatch(grants) {
		nodes = append(nodes, attempt.invoke.GetNode())
	}
	require.Equal(t, homes, nodes)
}
