package main

import (
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// trainFlags are the flags that describe a task. Their defaults are those of
// config.DefaultTrain, set from the start.
type trainFlags struct {
	dataset        string
	epochs, batch  uint32
	lr             float64
	options        *messages.TrainOptions
	merge          string
	optimizerState string
	compress       string
	lrScale        string
	keep           string
	label          string
	testShare      float64 // 0: the default
	sparse         bool    // one round an epoch
	shuffle        bool
	noShuffle      bool
	backup         bool
	noBackup       bool
	onBadSamples   string
	retries        uint32
}

func newTrainFlags() *trainFlags {
	d := config.DefaultTrain()
	return &trainFlags{
		epochs: d.Epochs, batch: d.BatchSize, lr: d.LR,
		merge: d.Merge, optimizerState: d.OptimizerState, compress: d.Compress, lrScale: d.LRScale, keep: d.Keep, shuffle: d.Shuffle, retries: d.Retries,
		backup: d.Backup, onBadSamples: d.OnBadSamples,
		options: &messages.TrainOptions{
			MinParallelism:    d.MinParallelism,
			K:                 d.K,
			ValidateEvery:     d.ValidateEvery,
			Seed:              d.Seed,
			MinFunctions:      d.MinFunctions,
			FunctionTimeoutMs: uint64(d.FunctionTimeout.Milliseconds()),
			Priority:          d.Priority,
			Args:              map[string]string{},
			Env:               map[string]string{},
			RequireLabels:     map[string]string{},
		},
	}
}

// register adds the flags to set, for a task of this machine: its data may be a
// file.
func (f *trainFlags) register(set *pflag.FlagSet) {
	f.registerTask(set, "data set to train on: a built-in (digits), a path, or the name of one in the store")
	f.registerReading(set)
}

// registerTask adds the flags of any task.
func (f *trainFlags) registerTask(set *pflag.FlagSet, dataset string) {
	o := f.options
	set.StringVarP(&f.dataset, "dataset", "d", "", dataset)
	set.VarP(whole(&f.epochs, 1, task.MaxEpochs), "epochs", "e", "how often every sample is trained")
	set.VarP(whole(&f.batch, 1, task.MaxBatchSize), "batch", "b", "samples of a batch")
	set.Var(positive(&f.lr), "lr", "learning rate")
	set.Var(oneOf(&f.lrScale, task.LRScales()), "lr-scale", "how the learning rate follows N")
	set.Var(rising(&o.Warmup), "warmup", "epochs over which the learning rate rises to its value")
	set.VarP(whole(&o.DefaultParallelism, 1, task.MaxParallelism), "parallelism", "p", "functions N of the first epoch (default: free slots, at most 4)")
	set.Var(whole(&o.MinParallelism, 1, task.MaxParallelism), "min-parallelism", "least N that the scheduler may choose")
	set.Var(whole(&o.MaxParallelism, 1, task.MaxParallelism), "max-parallelism", "greatest N that the scheduler may choose (default: all slots)")
	set.BoolVar(&o.StaticParallelism, "static", false, "keep N")
	set.VarP(batches(&o.K), "K", "K", "batches of a round, after which the functions' models are merged; -1: one round an epoch")
	set.BoolVar(&f.sparse, "sparse-avg", false, "one round an epoch, as -K -1")
	set.Var(strategy(&f.merge), "merge", "how models are merged: "+strings.Join(tensor.Strategies(), ", "))
	set.Var(limit(&o.Clip), "clip", "most that the L2 norm of a function's change in a round may be; what changed more is scaled down (default: no limit)")
	set.Var(oneOf(&f.optimizerState, task.OptimizerStates()), "optimizer-state", "what becomes of it at a merge")
	set.Var(oneOf(&f.compress, task.Compressions()), "compress", "how functions' models are encoded for the merge: int8 is a quarter of the bytes between nodes, and what it loses comes with the next round")
	set.Var(epochs(&o.ValidateEvery), "validate-every", "epochs between validations; a fraction validates within epochs; -1: only at the end")
	set.Var(percent(&o.GoalAccuracy), "goal-accuracy", "end once a validation measures this accuracy in percent")
	set.Var(whole(&o.Patience, 1, task.MaxEpochs), "patience", "end after so many validated epochs without a better one")
	set.Var(duration(&o.MaxTimeMs, task.MinMaxTime, task.MaxMaxTime, ""), "max-time", "end after the job has run for so long, in all its incarnations")
	set.Var(oneOf(&f.keep, task.Keeps()), "keep", "which model becomes the result: the last, or the best by accuracy, else by validation loss")
	set.BoolVar(&f.shuffle, "shuffle", f.shuffle, "train samples in an order of their own each epoch")
	set.BoolVar(&f.noShuffle, "no-shuffle", false, "train samples in the order of the data set")
	set.Var(unsigned(&o.Seed), "seed", "seed of every random draw")
	set.Var(whole(&f.retries, 0, task.MaxRetries), "retries", "further attempts at an assignment that failed")
	set.Var(whole(&o.MinFunctions, 1, task.MaxParallelism), "min-functions", "answers that a round needs")
	set.Var(duration(&o.FunctionTimeoutMs, task.MinFunctionTimeout, task.MaxFunctionTimeout, "30m"), "function-timeout", "limit of one attempt")
	set.Var(orAuto(&o.CheckpointEveryMs, time.Millisecond, task.MaxCheckpointEvery), "checkpoint-every", "time between two states in the store, or auto: after each merge while that takes under 5 % of the time, at least every 30 s; and at each epoch's end")
	set.BoolVar(&f.backup, "backup", f.backup, "run an assignment that takes much longer than the others a second time, on a free slot")
	set.BoolVar(&f.noBackup, "no-backup", false, "run every assignment once at a time")
	set.Var(oneOf(&f.onBadSamples, task.OnBadSamples()), "on-bad-samples", "what to do where a function fails on some samples every time: end the job, or drop them")
	set.Var(pairs(o.Args), "arg", "argument for the function; repeat for more")
	set.Var(pairs(o.Env), "env", "environment variable for the program; repeat for more")
	set.StringVar(&o.Init, "init", "", "start from a model: the id of a job, or a .safetensors file")
	set.BoolVar(&o.InitPartial, "init-partial", false, "take of --init what fits, leave the rest as the function made it")
	set.Var(whole(&o.Priority, math.MinInt32, math.MaxInt32), "priority", "jobs of a higher priority start first")
	set.Var(f.chaos(), "chaos", "break things on purpose: shares of the attempts to kill, hang, nan, slow, freeze, corrupt and disk-full, and of the rounds to crash-job, with store-down=10s and seed=7, such as kill=0.1,nan=0.02,seed=7")
}

// registerReading adds the flags that say how a file is read.
func (f *trainFlags) registerReading(set *pflag.FlagSet) {
	set.StringVar(&f.label, "label", "", "column of a CSV file that is y (default: the last)")
	set.Var(share(&f.testShare, "0.2"), "test-share", "part to test with, of a file that has no test part")
}

func (f *trainFlags) chaos() *value {
	return &value{kind: "plan", set: func(s string) (err error) {
		f.options.Chaos, err = task.ParseChaos(s)
		return err
	}}
}

// task returns the task as typed, in set. Flags that contradict each other are
// Invalid; the rest is for task.Resolve to check.
func (f *trainFlags) task(function string, set *pflag.FlagSet) (*messages.TrainTask, error) {
	for _, pair := range [][2]string{{"shuffle", "no-shuffle"}, {"backup", "no-backup"}, {"K", "sparse-avg"}} {
		if set.Changed(pair[0]) && set.Changed(pair[1]) {
			return nil, fault.New("run.flags", fault.Invalid, "--%s and --%s say the same thing in two ways: give one of them", pair[0], pair[1])
		}
	}
	o := f.options
	o.Keep = f.keep
	o.Merge, o.OptimizerState, o.Compress, o.LrScale, o.Retries = f.merge, f.optimizerState, f.compress, f.lrScale, &f.retries
	shuffle := f.shuffle && !f.noShuffle
	o.Shuffle = &shuffle
	backup := f.backup && !f.noBackup
	o.Backup, o.OnBadSamples = &backup, f.onBadSamples
	if f.sparse {
		o.K = -1
	}
	return &messages.TrainTask{
		FunctionName: function, Dataset: f.dataset, Epochs: f.epochs, BatchSize: f.batch, Lr: f.lr, Options: o,
		DatasetLabel: f.label, DatasetTestShare: f.testShare,
	}, nil
}
