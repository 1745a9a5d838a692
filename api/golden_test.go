package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// The shapes that KubeML's clients and ours read. A change here breaks them.
func TestShapesAreAsDocumented(t *testing.T) {
	s := start(t)
	settled(s)
	for name, path := range map[string]string{
		"tasks": "/tasks", "task": "/tasks/e", "history": "/history/e", "functions": "/functions", "dataset": "/dataset", "cluster": "/cluster",
		"models": "/models", "error": "/tasks/x",
	} {
		_, body := s.do("GET", path, "")
		var pretty bytes.Buffer
		require.NoError(t, json.Indent(&pretty, []byte(body), "", "  "))
		file := filepath.Join("testdata", name+".json")
		if *rewrite {
			require.NoError(t, os.WriteFile(file, pretty.Bytes(), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), pretty.String(), path)
	}
}

// What a client of KubeML's decodes into its own structs.
func TestKubeMLsStructsAreFilled(t *testing.T) {
	s := start(t)
	settled(s)
	type request struct {
		ModelType    string  `json:"model_type"`
		BatchSize    int     `json:"batch_size"`
		Epochs       int     `json:"epochs"`
		Dataset      string  `json:"dataset"`
		LearningRate float32 `json:"lr"`
		FunctionName string  `json:"function_name"`
		Options      struct {
			DefaultParallelism int     `json:"default_parallelism"`
			StaticParallelism  bool    `json:"static_parallelism"`
			ValidateEvery      int     `json:"validate_every"`
			K                  int     `json:"k"`
			GoalAccuracy       float64 `json:"goal_accuracy"`
		} `json:"options"`
	}
	var tasks []struct {
		Parameters request `json:"request"`
		Job        struct {
			JobID string `json:"id"`
			State struct {
				Parallelism int     `json:"parallelism"`
				ElapsedTime float64 `json:"elapsed_time"`
			} `json:"state"`
		} `json:"job"`
	}
	_, body := s.do("GET", "/tasks", "")
	require.NoError(t, json.Unmarshal([]byte(body), &tasks))
	require.Len(t, tasks, 1)
	require.Equal(t, "r", tasks[0].Job.JobID)
	require.Equal(t, 4, tasks[0].Job.State.Parallelism)
	require.InDelta(t, 10.25, tasks[0].Job.State.ElapsedTime, 0)
	require.Equal(t, 16, tasks[0].Parameters.Options.K)
	require.Equal(t, "mlp", tasks[0].Parameters.FunctionName)

	var history struct {
		ID   string  `json:"id"`
		Task request `json:"task"`
		Data struct {
			ValidationLoss []float64 `json:"validation_loss"`
			Accuracy       []float64 `json:"accuracy"`
			TrainLoss      []float64 `json:"train_loss"`
			Parallelism    []int     `json:"parallelism"`
			EpochDuration  []float64 `json:"epoch_duration"`
		} `json:"data"`
	}
	_, body = s.do("GET", "/history/e", "")
	require.NoError(t, json.Unmarshal([]byte(body), &history))
	require.Equal(t, []float64{0.9, 0.5}, history.Data.TrainLoss)
	require.Equal(t, []float64{0, 96.5}, history.Data.Accuracy, "null: not measured")
	require.Equal(t, []int{2, 3}, history.Data.Parallelism)
}
