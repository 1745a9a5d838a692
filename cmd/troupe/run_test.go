package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunWithoutFlagsTakesEveryDefault(t *testing.T) {
	c := succeeded()
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits")
	require.Zero(t, r.code, r.err)
	want, err := task.Resolve(&messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
	require.NoError(t, err)
	require.Truef(t, proto.Equal(want, c.task), "the flags' defaults are those of package task:\n%v\n%v", want, c.task)
	require.Equal(t, config.Cores(), c.node.Slots)
	require.Equal(t, "file:///home/ann/.local/share/troupe", c.node.Store)
	require.Equal(t, 1, c.closed)
}

func TestRunHandsOverEveryFlag(t *testing.T) {
	c := succeeded()
	r := newWorld(t).run(c, "run", "softmax", "--dataset", "d.npz", "-e", "9", "-b", "3", "--lr", "0.5", "-p", "70", "--min-parallelism", "4",
		"--max-parallelism", "96", "--static", "-K", "-1", "--merge", "average:unweighted", "--clip", "2.5", "--goal-accuracy", "97.5", "--patience", "3", "--max-time", "90m", "--keep", "best", "--optimizer-state", "reset", "--compress", "int8",
		"--validate-every", "0.25", "--no-shuffle", "--seed", "18446744073709551615", "--retries", "1", "--min-functions", "2", "--no-backup", "--on-bad-samples", "drop",
		"--function-timeout", "1m30s", "--checkpoint-every", "10s", "--arg", "a=1", "--arg", "b==,", "--priority", "-3", "--chaos", "kill=0.5,seed=9",
		"--threads", "2", "--store", "mem://", "--lr-scale", "sqrt", "--warmup", "0.5", "--env", "E=f", "--init", "m.safetensors",
		"--init-partial", "--label", "y", "--test-share", "0.5", "--python", "/py", "--memory-limit", "1.5GiB", "--idle-timeout", "5s", "--no-pin", "--gpus", "none")
	require.Zero(t, r.code, r.err)
	want := &messages.TrainTask{
		FunctionName: "softmax", Dataset: "d.npz", Epochs: 9, BatchSize: 3, Lr: 0.5,
		DatasetLabel: "y", DatasetTestShare: 0.5,
		Options: &messages.TrainOptions{
			DefaultParallelism: 70, MinParallelism: 4, MaxParallelism: 96, StaticParallelism: true, K: -1,
			Merge: "average:unweighted", Clip: 2.5, GoalAccuracy: 97.5, Patience: 3, MaxTimeMs: 5_400_000, Keep: "best", OptimizerState: "reset", Compress: "int8", ValidateEvery: 0.25, Shuffle: proto.Bool(false),
			Seed: 1<<64 - 1, Retries: proto.Uint32(1), MinFunctions: 2, FunctionTimeoutMs: 90_000, CheckpointEveryMs: 10_000,
			Backup: proto.Bool(false), OnBadSamples: "drop",
			Chaos: &messages.ChaosPlan{Kill: 0.5, Seed: 9}, Args: map[string]string{"a": "1", "b": "=,"}, Priority: -3,
			LrScale: "sqrt", Warmup: 0.5, Env: map[string]string{"E": "f"}, Init: "m.safetensors", InitPartial: true,
		},
	}
	require.Truef(t, proto.Equal(want, c.task), "%v\n%v", want, c.task)
	require.Equal(t, 70, c.node.Slots, "as many slots as functions were asked for")
	require.Equal(t, 2, c.node.Threads)
	require.Equal(t, "/py", c.node.Python)
	require.EqualValues(t, 3<<29, c.node.MemoryLimit)
	require.Equal(t, 5*time.Second, c.node.IdleTimeout)
	require.True(t, c.node.NoPin)
	require.Equal(t, "none", c.node.GPUs)
	require.Equal(t, "mem://", c.node.Store)
}

func TestSlotsAreTakenAsTyped(t *testing.T) {
	c := succeeded()
	require.Zero(t, newWorld(t).run(c, "run", "mlp", "-d", "digits", "-p", "4", "--slots", "2").code)
	require.Equal(t, 2, c.node.Slots)
	require.EqualValues(t, 4, c.task.GetOptions().GetDefaultParallelism())
}

func TestSparseAverageIsOneRoundAnEpoch(t *testing.T) {
	c := succeeded()
	require.Zero(t, newWorld(t).run(c, "run", "mlp", "-d", "digits", "--sparse-avg").code)
	require.EqualValues(t, -1, c.task.GetOptions().GetK())
}

func TestRunShowsEachEpochAndASummary(t *testing.T) {
	c := succeeded()
	c.warnings = []string{"N is above the slots", "N is above the slots"}
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits", "-e", "2")
	require.Zero(t, r.code)
	require.Equal(t, `job 01job: mlp on digits
troupe: warning: N is above the slots
epoch 1/2  loss 0.900  val-loss 0.500  accuracy 93.1 %  N=2  samples 1437  0.2 s  retries 3  lost 1  rejected 2
troupe: warning: the sky is low
epoch 2/2  loss 0.400  N=2  samples 1437  0.2 s
`, r.err)
	require.Equal(t, `job 01job SUCCEEDED after 2 epochs in 1.9 s
  accuracy  93.1 %
  val-loss  0.500
  trouble   retries 3  lost 1  rejected 2
  model     file:///m/01job.1.safetensors
  more      -o json prints each epoch, -v says what happens
`, r.out)
}

func TestRunPrintsTheResultAsJSONAndNothingElse(t *testing.T) {
	r := newWorld(t).run(succeeded(), "run", "mlp", "-d", "a&b.npz", "-o", "json")
	require.Zero(t, r.code)
	require.Equal(t, `{"job_id":"01job","state":"SUCCEEDED","function":"mlp","dataset":"a&b.npz","epochs":[`+
		`{"epoch":1,"train_loss":0.9,"validation_loss":0.5,"accuracy":93.1,"parallelism":2,"rounds":4,"samples":1437,`+
		`"dropped_samples":0,"duration_s":0.2,"retries":3,"lost_functions":1,"rejected_results":2},`+
		`{"epoch":2,"train_loss":0.4,"validation_loss":null,"accuracy":null,"parallelism":2,"rounds":4,"samples":1437,`+
		`"dropped_samples":0,"duration_s":0.25,"retries":0,"lost_functions":0,"rejected_results":0}],`+
		`"accuracy":93.1,"validation_loss":0.5,"retries":3,"lost_functions":1,"rejected_results":2,"wall_s":1.9,"worker_s":3.1,`+
		`"model":"file:///m/01job.1.safetensors","error":null}`+"\n", r.out)
}

func TestDemoTrainsWithTwoFunctions(t *testing.T) {
	c := succeeded()
	r := newWorld(t).run(c, "demo", "--store", "mem://", "-o", "json")
	require.Zero(t, r.code, r.err)
	require.Equal(t, "mlp", c.task.GetFunctionName())
	require.Equal(t, "digits", c.task.GetDataset())
	require.EqualValues(t, 2, c.task.GetOptions().GetDefaultParallelism())
	require.GreaterOrEqual(t, c.node.Slots, 2)
	require.Contains(t, r.out, `"function":"mlp"`)
}
