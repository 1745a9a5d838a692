package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// A job that ends before it has taken up its state leaves that as it is: it
// shall go on from there another time.
func TestAJobThatEndsWhileItTakesUpItsStateStoresNone(t *testing.T) {
	for name, end := range map[string]func(*stage){
		"stopped": func(s *stage) { require.Nil(t, s.stop().GetFailure()) },
		"failed":  func(s *stage) { s.sim.Advance(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			from := &messages.JobState{
				Job: &messages.JobRef{Id: "j", Incarnation: 1}, Epoch: 1, Round: 1, ModelVersion: 1,
				Model: &messages.TensorRef{Key: "gone", Bytes: 8},
			}
			s := newStageFrom(t, 1, sizeOf(1, 2, 2), taskOf(100, validating), &vault{from: from, shut: fault.New("test", fault.Corrupt, "the store is damaged")}, nil)
			require.Nil(t, s.finished)
			end(s)
			s.sim.Drain()
			require.NotEqual(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
			require.Empty(t, s.vault.saves)
		})
	}
}
