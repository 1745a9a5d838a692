package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
)

func TestTheDemoTrains(t *testing.T) {
	node := config.DefaultNode()
	node.Store = "mem://"
	var out strings.Builder
	require.NoError(t, run(t.Context(), node, &out))
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 4, "two epochs, the end, and the end of that line")
	for i, line := range lines[:2] {
		var epoch, samples int
		var accuracy float64
		_, err := fmt.Sscanf(line, "epoch %d: %d samples, %f %% right", &epoch, &samples, &accuracy)
		require.NoError(t, err, line)
		require.Equal(t, []int{i + 1, 1437}, []int{epoch, samples})
		require.Greater(t, accuracy, 85.0)
	}
	require.Equal(t, "PHASE_SUCCEEDED", lines[2])
}
