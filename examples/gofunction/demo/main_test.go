package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/examples/gofunction"
)

// TestMain lets this binary be a process of -isolate, as main does.
func TestMain(m *testing.M) {
	actors.Isolated(gofunction.Centroids())
	os.Exit(m.Run())
}

func TestTheDemoTrains(t *testing.T) {
	for name, isolate := range map[string]bool{"in this process": false, "in processes of their own": true} {
		t.Run(name, func(t *testing.T) { trains(t, isolate) })
	}
}

func trains(t *testing.T, isolate bool) {
	t.Helper()
	node := config.DefaultNode()
	node.Store, node.Isolate = "mem://", isolate
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
