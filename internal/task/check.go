package task

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// The bounds of a task. The lower ones are 1 unless said otherwise.
const (
	MaxEpochs          = 1_000_000
	MaxBatchSize       = 65536 // samples
	MaxParallelism     = 65536 // functions
	MaxRetries         = 1000  // per assignment; 0 is allowed
	MinFunctionTimeout = time.Millisecond
	MaxFunctionTimeout = 30 * 24 * time.Hour
	MaxCheckpointEvery = 30 * 24 * time.Hour // 0: auto
)

// OptimizerStates lists what options.optimizer_state may be.
func OptimizerStates() []string { return []string{"keep", "reset", "average"} }

// Compressions lists what options.compress may be.
func Compressions() []string { return tensor.Encodings() }

// LRScales lists what options.lr_scale may be.
func LRScales() []string { return []string{"none", "sqrt", "linear"} }

// OnBadSamples lists what options.on_bad_samples may be.
func OnBadSamples() []string { return []string{"fail", "drop"} }

func invalid(format string, args ...any) error {
	return fault.New("task.resolve", fault.Invalid, format, args...)
}

// check returns an error unless t, with its defaults set, is sound.
func check(t *messages.TrainTask) error {
	for _, one := range []func(*messages.TrainTask) error{
		checkNames, checkTask, checkParallelism, checkMerge, checkEnds, checkTraining, checkRates, checkRounds, checkArgs, checkEnv, checkLabels,
	} {
		if err := one(t); err != nil {
			return err
		}
	}
	return checkChaos(t.GetOptions().GetChaos())
}

func checkNames(t *messages.TrainTask) error {
	switch {
	case strings.TrimSpace(t.GetFunctionName()) == "":
		return invalid("function: no name given: say which function to train, such as mlp")
	case strings.TrimSpace(t.GetDataset()) == "":
		return invalid("dataset: no name given: say which data set to train on, such as digits")
	case !utf8.ValidString(t.GetFunctionName()):
		return invalid("function %q: the name is not UTF-8: give one that is", t.GetFunctionName())
	case !utf8.ValidString(t.GetDataset()):
		return invalid("dataset %q: the name is not UTF-8: give one that is", t.GetDataset())
	}
	return nil
}

func checkTask(t *messages.TrainTask) error {
	switch {
	case t.GetEpochs() < 1 || t.GetEpochs() > MaxEpochs:
		return invalid("epochs %d: give 1 to %d", t.GetEpochs(), MaxEpochs)
	case t.GetBatchSize() < 1 || t.GetBatchSize() > MaxBatchSize:
		return invalid("batch %d: give 1 to %d samples", t.GetBatchSize(), MaxBatchSize)
	case !finite(t.GetLr()) || t.GetLr() <= 0:
		return invalid("lr %v: give a finite number above 0", t.GetLr())
	}
	return nil
}

func checkParallelism(t *messages.TrainTask) error {
	o := t.GetOptions()
	n, lo, hi := o.GetDefaultParallelism(), o.GetMinParallelism(), o.GetMaxParallelism()
	for _, f := range []struct {
		flag  string
		value uint32
	}{{"parallelism", n}, {"min-parallelism", lo}, {"max-parallelism", hi}} {
		if f.value > MaxParallelism {
			return invalid("%s %d: give 1 to %d functions", f.flag, f.value, MaxParallelism)
		}
	}
	switch {
	case hi != 0 && hi < lo:
		return invalid("max-parallelism %d is below min-parallelism %d: raise the one or lower the other", hi, lo)
	case n != 0 && n < lo:
		return invalid("parallelism %d is below min-parallelism %d: raise the one or lower the other", n, lo)
	case n != 0 && hi != 0 && n > hi:
		return invalid("parallelism %d is above max-parallelism %d: lower the one or raise the other", n, hi)
	}
	return nil
}

func checkMerge(t *messages.TrainTask) error {
	o := t.GetOptions()
	if _, err := tensor.ParseStrategy(o.GetMerge()); err != nil {
		return invalid("%w", err)
	}
	if _, err := tensor.ParseEncoding(o.GetCompress()); err != nil {
		return invalid("%w", err)
	}
	if !finite(o.GetClip()) || o.GetClip() < 0 {
		return invalid("clip %v: give the most that the L2 norm of a function's change may be, a number above 0, or leave it out", o.GetClip())
	}
	return nil
}

func checkTraining(t *messages.TrainTask) error {
	o := t.GetOptions()
	switch {
	case o.GetK() < 1 && o.GetK() != -1:
		return invalid("K %d: give the batches of a round, 1 or more, or -1 for one round an epoch", o.GetK())
	case !slices.Contains(OptimizerStates(), o.GetOptimizerState()):
		return invalid("optimizer-state %q does not exist: give one of %s", o.GetOptimizerState(), strings.Join(OptimizerStates(), ", "))
	case !finite(o.GetValidateEvery()) || o.GetValidateEvery() <= 0 && o.GetValidateEvery() != -1:
		return invalid("validate-every %v: give a number of epochs above 0, or -1 for only at the end", o.GetValidateEvery())
	}
	return nil
}

func checkRates(t *messages.TrainTask) error {
	o := t.GetOptions()
	switch {
	case !slices.Contains(LRScales(), o.GetLrScale()):
		return invalid("lr-scale %q does not exist: give one of %s", o.GetLrScale(), strings.Join(LRScales(), ", "))
	case !finite(o.GetWarmup()) || o.GetWarmup() < 0:
		return invalid("warmup %v: give a number of epochs, 0 or more", o.GetWarmup())
	case o.GetInitPartial() && o.GetInit() == "":
		return invalid("init-partial: it says how --init is used: give --init too")
	}
	return nil
}

func checkRounds(t *messages.TrainTask) error {
	o := t.GetOptions()
	switch timeout := o.GetFunctionTimeoutMs(); {
	case o.GetCheckpointEveryMs() > uint64(MaxCheckpointEvery/time.Millisecond):
		return invalid("checkpoint-every %d ms: give auto, or 1ms to %v", o.GetCheckpointEveryMs(), MaxCheckpointEvery)
	case o.GetRetries() > MaxRetries:
		return invalid("retries %d: give 0 to %d", o.GetRetries(), MaxRetries)
	case o.GetMinFunctions() < 1 || o.GetMinFunctions() > MaxParallelism:
		return invalid("min-functions %d: give 1 to %d", o.GetMinFunctions(), MaxParallelism)
	case !slices.Contains(OnBadSamples(), o.GetOnBadSamples()):
		return invalid("on-bad-samples %q: give one of %s", o.GetOnBadSamples(), strings.Join(OnBadSamples(), ", "))
	case o.GetOnBadSamples() == "drop" && o.GetRetries() == 0:
		return invalid("on-bad-samples drop with retries 0: samples are bad once two attempts have failed at them, so give at least 1 retry")
	case timeout < uint64(MinFunctionTimeout/time.Millisecond) || timeout > uint64(MaxFunctionTimeout/time.Millisecond):
		return invalid("function-timeout %d ms: give %v to %v", timeout, MinFunctionTimeout, MaxFunctionTimeout)
	}
	return nil
}

func checkArgs(t *messages.TrainTask) error {
	for k, v := range t.GetOptions().GetArgs() {
		switch {
		case k == "":
			return invalid("arg %q: it has no name: give name=value", "="+v)
		case !utf8.ValidString(k) || !utf8.ValidString(v):
			return invalid("arg %q: it is not UTF-8: give text that is", k+"="+v)
		}
	}
	return nil
}

func checkLabels(t *messages.TrainTask) error {
	for k, v := range t.GetOptions().GetRequireLabels() {
		if !config.IsLabel(k, v) {
			return invalid("require-label %q: %s", k+"="+v, config.LabelForm)
		}
	}
	return nil
}

func checkEnv(t *messages.TrainTask) error {
	for k, v := range t.GetOptions().GetEnv() {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00"):
			return invalid("env %q: give NAME=value, without NUL bytes", k+"="+v)
		case !utf8.ValidString(k) || !utf8.ValidString(v):
			return invalid("env %q: it is not UTF-8: give text that is", k+"="+v)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
