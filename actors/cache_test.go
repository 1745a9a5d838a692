package actors_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// modelID is what a stored model is called.
func modelID(r *messages.JobResult) string {
	id, _, _ := strings.Cut(path.Base(r.GetModel()), ".")
	return id
}

// A model to start from is copied to the node's cache once, unless it is a file here
// already; the copies are bounded.
func TestModelsAreCopiedOnce(t *testing.T) {
	for store, copies := range map[string]int{"mem://": 1, "file://" + t.TempDir(): 0} {
		node := config.DefaultNode()
		node.Store, node.Slots, node.Cache = store, 1, t.TempDir()
		c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		begin := func(c *actors.Company, from string) (*messages.JobResult, error) {
			return run(c, &messages.TrainTask{FunctionName: "softmax", Dataset: "digits", Epochs: 1, Options: &messages.TrainOptions{Init: from}})
		}
		first, err := begin(c, "")
		require.NoError(t, err)
		id := modelID(first)
		var made []os.FileInfo
		for range 2 {
			_, err = begin(c, id)
			require.NoError(t, err)
			paths, err := filepath.Glob(filepath.Join(node.Cache, "models", "*", "*"))
			require.NoError(t, err)
			require.Len(t, paths, copies)
			for _, path := range paths {
				info, err := os.Stat(path)
				require.NoError(t, err)
				made = append(made, info)
			}
		}
		if copies > 0 {
			require.True(t, os.SameFile(made[0], made[1]))
		}
	}
	node := config.DefaultNode()
	node.Store, node.Slots, node.Cache, node.CacheLimit = "mem://", 1, t.TempDir(), 100
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	first, err := run(c, &messages.TrainTask{FunctionName: "softmax", Dataset: "digits", Epochs: 1})
	require.NoError(t, err)
	_, err = run(c, &messages.TrainTask{FunctionName: "softmax", Dataset: "digits", Epochs: 1, Options: &messages.TrainOptions{Init: modelID(first)}})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "raise --cache-limit")
}
