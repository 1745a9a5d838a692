package task_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

func sound() *messages.TrainTask {
	return &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Options: &messages.TrainOptions{}}
}

func TestResolveSetsEveryDefault(t *testing.T) {
	r, err := task.Resolve(&messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
	require.NoError(t, err)
	require.Truef(t, proto.Equal(&messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: 5, BatchSize: 64, Lr: 0.01,
		Options: &messages.TrainOptions{
			MinParallelism: 1, K: 16, Merge: "average", OptimizerState: "keep", Compress: "none", ValidateEvery: 1, LrScale: "none",
			Shuffle: proto.Bool(true), Retries: proto.Uint32(3), MinFunctions: 1, FunctionTimeoutMs: 30 * 60 * 1000,
			Backup: proto.Bool(true), OnBadSamples: "fail", Keep: "last",
		},
	}, r), "%v", r)
}

func TestResolveKeepsWhatIsSetAndCopies(t *testing.T) {
	asked := &messages.TrainTask{
		FunctionName: "f", Dataset: "d", Epochs: task.MaxEpochs, BatchSize: task.MaxBatchSize, Lr: math.SmallestNonzeroFloat64,
		DatasetDigest: "ab", TrainSamples: 7,
		Options: &messages.TrainOptions{
			DefaultParallelism: 3, MinParallelism: 3, MaxParallelism: 3, StaticParallelism: true, K: -1,
			Merge: "average:unweighted", OptimizerState: "reset", Compress: "int8", ValidateEvery: -1, LrScale: "sqrt", Warmup: 2,
			Shuffle: proto.Bool(false), Seed: math.MaxUint64, Retries: proto.Uint32(0), MinFunctions: 65536,
			FunctionTimeoutMs: 1, Chaos: &messages.ChaosPlan{Kill: 1}, Args: map[string]string{"a": ""}, Priority: -5,
			Backup: proto.Bool(false), OnBadSamples: "fail", Keep: "last",
		},
	}
	before := proto.CloneOf(asked)
	r, err := task.Resolve(asked)
	require.NoError(t, err)
	require.Truef(t, proto.Equal(before, r), "%v", r)
	r.Options.Args["a"] = "changed"
	require.True(t, proto.Equal(before, asked), "the task that was passed in is not touched")
	again, err := task.Resolve(r)
	require.NoError(t, err)
	require.True(t, proto.Equal(r, again), "a resolved task resolves to itself")
}

// The names that check knows and the defaults that config has must agree.
func TestDefaultsAreAllowed(t *testing.T) {
	d := config.DefaultTrain()
	require.Contains(t, tensor.Strategies(), d.Merge)
	require.Contains(t, task.OptimizerStates(), d.OptimizerState)
	require.Contains(t, task.OnBadSamples(), d.OnBadSamples)
}

func TestResolveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *messages.TrainTask, o *messages.TrainOptions)
		says   string // the field, the value and what is allowed
	}{
		"no function":                    {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.FunctionName = " " }, "function: no name given"},
		"no data set":                    {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Dataset = "" }, "dataset: no name given"},
		"function not UTF-8":             {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.FunctionName = "a\xff" }, `function "a\xff"`},
		"data set not UTF-8":             {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Dataset = "a\xff" }, `dataset "a\xff"`},
		"too many epochs":                {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Epochs = 1_000_001 }, "epochs 1000001: give 1 to 1000000"},
		"batch too large":                {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.BatchSize = 65537 }, "batch 65537: give 1 to 65536"},
		"lr NaN":                         {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Lr = math.NaN() }, "lr NaN: give a finite number above 0"},
		"lr infinite":                    {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Lr = math.Inf(1) }, "lr +Inf"},
		"lr negative":                    {func(t *messages.TrainTask, _ *messages.TrainOptions) { t.Lr = -0.1 }, "lr -0.1"},
		"N too large":                    {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.DefaultParallelism = 65537 }, "parallelism 65537: give 1 to 65536"},
		"min too large":                  {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.MinParallelism = 65537 }, "min-parallelism 65537"},
		"max too large":                  {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.MaxParallelism = 65537 }, "max-parallelism 65537"},
		"max below min":                  {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.MinParallelism, o.MaxParallelism = 4, 2 }, "max-parallelism 2 is below min-parallelism 4"},
		"N below min":                    {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.DefaultParallelism, o.MinParallelism = 2, 4 }, "parallelism 2 is below min-parallelism 4"},
		"N above max":                    {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.DefaultParallelism, o.MaxParallelism = 4, 2 }, "parallelism 4 is above max-parallelism 2"},
		"K below -1":                     {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.K = -2 }, "K -2"},
		"unknown merge":                  {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Merge = "mode" }, `merge "mode" does not exist: give one of average, average:unweighted`},
		"outer lr 0":                     {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Merge = "nesterov:0" }, `merge "nesterov:0": outer learning rate 0: give a number above 0`},
		"goal above 100":                 {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.GoalAccuracy = 101 }, "goal-accuracy 101: give a percentage above 0, at most 100"},
		"goal NaN":                       {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.GoalAccuracy = math.NaN() }, "goal-accuracy NaN"},
		"goal, never validated":          {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.GoalAccuracy, o.ValidateEvery = 90, -1 }, "goal-accuracy needs validations on the way, and validate-every -1"},
		"patience, never validated":      {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Patience, o.ValidateEvery = 1, -1 }, "patience needs validations on the way"},
		"best, never validated":          {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Keep, o.ValidateEvery = "best", -1 }, "keep best needs validations on the way"},
		"patience, two epochs":           {func(t *messages.TrainTask, o *messages.TrainOptions) { t.Epochs, o.Patience = 2, 1 }, "patience 1 never ends a job of 2 epochs before its last one, with validate-every 1: give more epochs, or leave it out"},
		"patience of all epochs but one": {func(t *messages.TrainTask, o *messages.TrainOptions) { t.Epochs, o.Patience = 10, 9 }, "give at most 8, or more epochs"},
		"patience, seldom validated": {func(t *messages.TrainTask, o *messages.TrainOptions) {
			t.Epochs, o.Patience, o.ValidateEvery = 10, 3, 3
		}, "patience 3 never ends a job of 10 epochs before its last one, with validate-every 3: give at most 2, or more epochs, or validate more often"},
		"too much patience":            {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Patience = 1_000_001 }, "patience 1000001: give 1 to 1000000 epochs"},
		"time overflows":               {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.MaxTimeMs = math.MaxUint64 }, "max-time 18446744073709551615 ms: give 1ms to 87600h0m0s"},
		"unknown keep":                 {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Keep = "first" }, `keep "first": give one of last, best`},
		"clip negative":                {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Clip = -1 }, "clip -1: give"},
		"clip infinite":                {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Clip = math.Inf(1) }, "clip +Inf: give"},
		"unknown optimizer state":      {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.OptimizerState = "lose" }, `optimizer-state "lose" does not exist: give one of keep, reset, average`},
		"unknown compression":          {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Compress = "int4" }, `compress "int4" does not exist: give one of none, int8`},
		"validate every NaN":           {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.ValidateEvery = math.NaN() }, "validate-every NaN"},
		"validate every infinite":      {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.ValidateEvery = math.Inf(1) }, "validate-every +Inf"},
		"validate every -2":            {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.ValidateEvery = -2 }, "validate-every -2"},
		"too many retries":             {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Retries = proto.Uint32(1001) }, "retries 1001: give 0 to 1000"},
		"unknown way with bad samples": {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.OnBadSamples = "skip" }, `on-bad-samples "skip": give one of fail, drop`},
		"samples dropped at once": {func(_ *messages.TrainTask, o *messages.TrainOptions) {
			o.OnBadSamples, o.Retries = "drop", proto.Uint32(0)
		}, "on-bad-samples drop with retries 0"},
		"too many answers wanted": {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.MinFunctions = 65537 }, "min-functions 65537"},
		"states too rarely":       {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.CheckpointEveryMs = 3_000_000_000 }, "checkpoint-every 3000000000 ms: give auto, or 1ms to 720h0m0s"},
		"time-out overflows":      {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.FunctionTimeoutMs = math.MaxUint64 }, "function-timeout 18446744073709551615 ms: give 1ms to 720h0m0s"},
		"label that cannot be": {func(_ *messages.TrainTask, o *messages.TrainOptions) {
			o.RequireLabels = map[string]string{"gpu": "a 100"}
		}, `require-label "gpu=a 100": give name=value`},
		"argument without a name": {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Args = map[string]string{"": "v"} }, `arg "=v"`},
		"argument not UTF-8":      {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Args = map[string]string{"k": "\xff"} }, `arg "k=\xff"`},
		"chaos share above 1":     {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Chaos = &messages.ChaosPlan{Slow: 1.5} }, "chaos slow=1.5: give a share in [0, 1]"},
		"chaos share NaN":         {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Chaos = &messages.ChaosPlan{Nan: math.NaN()} }, "chaos nan=NaN"},
		"chaos share below 0":     {func(_ *messages.TrainTask, o *messages.TrainOptions) { o.Chaos = &messages.ChaosPlan{DiskFull: -1} }, "chaos disk-full=-1"},
		"store down for too long": {func(_ *messages.TrainTask, o *messages.TrainOptions) {
			o.Chaos = &messages.ChaosPlan{StoreDownMs: math.MaxUint64}
		}, "chaos store-down of 18446744073709551615 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := sound()
			c.change(asked, asked.Options)
			_, err := task.Resolve(asked)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

func TestResolveNilIsAnEmptyTask(t *testing.T) {
	_, err := task.Resolve(nil)
	require.ErrorContains(t, err, "function")
}
