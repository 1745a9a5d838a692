package actorkit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

func TestWhatLastsIsSaidAtOnceAndThenOnceAMinute(t *testing.T) {
	var told actorkit.Sparse
	var due []int
	for second := range 181 {
		if told.Due(time.Unix(int64(second), 0)) {
			due = append(due, second)
		}
	}
	require.Equal(t, []int{0, 60, 120, 180}, due)
	told = actorkit.Sparse{}
	require.True(t, told.Due(time.Unix(181, 0)))
}
