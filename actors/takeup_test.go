package actors_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/messages"
)

// A job that is taken up has the epochs of its state, and those that were told of
// since; damaged lines, repeats and what is no epoch change nothing.
func TestAJobThatIsTakenUpHasAllItsEpochs(t *testing.T) {
	record := func(epoch uint32) *messages.EpochRecord {
		return &messages.EpochRecord{Epoch: epoch, Samples: 1437}
	}
	stored := func(yield func([]byte, error) bool) {
		for _, e := range []*messages.JobEvent{
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record(2)}}},
			{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: 3}}},
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record(3)}}},
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record(3)}}},
			{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record(4)}}},
		} {
			line, err := protojson.Marshal(e)
			if !yield(nil, errors.New("damaged")) || !yield(line, err) || !yield([]byte("{"), nil) {
				return
			}
		}
	}
	state := []*messages.EpochRecord{record(1), record(2)}
	var epochs []uint32
	for _, e := range actors.EpochsSince(state, stored) {
		epochs = append(epochs, e.GetEpoch())
	}
	require.Equal(t, []uint32{1, 2, 3, 4}, epochs)
	require.Len(t, state, 2)
}
