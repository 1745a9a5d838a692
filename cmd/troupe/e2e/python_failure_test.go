package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// probe is a job of two functions with two rounds: in the first each has 16
// batches of 32, in the second 7.
func probe(t *testing.T, do string, more ...string) []string {
	t.Helper()
	args := []string{program(t, "probe.py"), "-d", "digits", "-e", "1", "-b", "32", "-p", "2", "--static"}
	if do != "" {
		args = append(args, "--arg", "do="+do)
	}
	return append(args, more...)
}

// An exception of the program, at step 5 of one function.
func TestE2EPythonUserRaises(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	mark := filepath.Join(h.dir, "mark")
	r, e := h.fail(t, probe(t, "train-raises", "--arg", "step=5", "--arg", "function=1", "--arg", "mark="+mark)...)
	raised, err := os.Stat(mark) // written to at each raise
	require.NoError(t, err)
	took := time.Since(raised.ModTime())
	t.Logf("ended %v after the second raise", took)
	require.Less(t, took, 5*time.Second)
	require.EqualValues(t, 2*len("raised\n"), raised.Size(), "two fresh workers raise the same")
	require.Equal(t, 1, r.Retries)
	for _, text := range []string{r.Error, e.err, h.log(t, r)} {
		require.Contains(t, text, "Traceback (most recent call last):\n  File \"probe.py\", line ")
		require.Contains(t, text, "in raises\n    raise RuntimeError(\"the fifth step went wrong\")\nRuntimeError: the fifth step went wrong")
	}
	require.Regexp(t, `function "probe" raised RuntimeError in train \(probe\.py:\d+\): the fifth step went wrong`, r.Error)
}

// What methods return that they must not: the error names the method, what came
// and what was expected.
func TestE2EPythonWrongReturns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for do, says := range map[string]string{
		"train-none":     `Probe\.train\(\) returned None .*at batch 0, expected the loss of the batch: a number`,
		"train-text":     `Probe\.train\(\) returned the str '0\.25' at batch 0, expected the loss of the batch: a number`,
		"train-list":     `Probe\.train\(\) returned the list \[0\.25, 0\.5\] at batch 0, expected the loss of the batch: a number`,
		"train-nan":      `diverged: .*Probe\.train\(\) returned nan at batch 0, expected a finite number, epoch 1, round 1, function [01], positions \[\d+,\d+\), lr 0\.01; lower --lr`,
		"validate-none":  `Probe\.validate\(\) returned None .*at batch 0, expected \(accuracy, loss\)`,
		"validate-list":  `Probe\.validate\(\) returned the list \[0\.25, 0\.5\] at batch 0, expected \(accuracy, loss\)`,
		"validate-nan":   `Probe\.validate\(\) returned nan at batch 0, expected a finite number`,
		"configure-none": `Probe\.configure_optimizers\(\) returned None .*expected a torch\.optim\.Optimizer`,
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			r, e := h.fail(t, probe(t, do)...)
			require.Regexp(t, says, r.Error)
			require.Regexp(t, says, e.err)
			require.NotContains(t, r.Error, "Traceback", "the program has no line to blame")
		})
	}
}

// What a function cannot be trained on is skipped on request, whether it raises
// or its loss is not finite: half of the samples here, and with all of them the
// job ends.
func TestE2EPythonBadSamplesAreDropped(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, do := range []string{"train-nan", "train-raises"} {
		r := h.run(t, probe(t, do, "--arg", "function=1", "--on-bad-samples", "drop")...)
		require.Equal(t, 719, r.Epochs[0].Samples, do) // function 0's: 512 of the first round, 207 of the second
		require.Equal(t, 718, r.Epochs[0].Dropped)
		require.Equal(t, 2, r.Epochs[0].Rounds)
	}
	r, _ := h.fail(t, probe(t, "train-nan", "--on-bad-samples", "drop")...)
	require.Contains(t, r.Error, "epoch 1: all 1437 samples were dropped")
}

// A broken answer costs one retry and leaves no trace in the model; what breaks
// every attempt ends the job with the reason.
func TestE2EPythonTrouble(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	calm := h.run(t, probe(t, "")...)
	once := func(do string, more ...string) (result, ended) {
		args := append(probe(t, do, "--arg", "step=15", "--arg", "function=1", "--arg", "once="+filepath.Join(h.dir, do), "-v", "-o", "json"), more...)
		e := h.troupe(t, append([]string{"run"}, args...)...)
		require.Zero(t, e.code, e.err)
		r := parse(t, e.out)
		require.Equal(t, 1, r.Retries)
		require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
		return r, e
	}
	t.Run("infinite weight once", func(t *testing.T) {
		r, e := once("train-poison")
		require.Equal(t, 1, r.RejectedResults)
		require.Regexp(t, `function failed.*"kind": "rejected".*tensor \\"bias\\": \+Inf at index 3`, e.err)
	})
	t.Run("exception once", func(t *testing.T) {
		r, e := once("train-raises")
		require.Zero(t, r.RejectedResults)
		require.Contains(t, e.err, "raised RuntimeError in train (probe.py:")
		require.Contains(t, h.log(t, r), "RuntimeError: the fifth step went wrong")
	})
	t.Run("killed once", func(t *testing.T) {
		_, e := once("train-kills")
		require.Contains(t, e.err, "was killed by signal 9 (SIGKILL)")
	})
	t.Run("infinite weight always", func(t *testing.T) {
		r, _ := h.fail(t, probe(t, "train-poison", "--arg", "step=15", "--arg", "function=1")...)
		require.Regexp(t, `^diverged: .*tensor "bias": \+Inf at index 3, epoch 1, round 1, function 1, positions \[512,1024\), lr 0\.01; lower --lr`, r.Error)
		require.Equal(t, 2, r.RejectedResults)
	})
	t.Run("all workers always exit", func(t *testing.T) {
		r, _ := h.fail(t, probe(t, "train-exits")...)
		require.Regexp(t, `epoch 1, round 1: 0 of 2 functions answered, .*ended with exit status 3`, r.Error)
		require.Equal(t, 2, r.LostFunctions)
		require.Equal(t, 6, r.Retries, "three of each assignment")
	})
}

// Many workers that die together are replaced together.
func TestE2EPythonManyDieTogether(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const n = 30
	job := func(more ...string) result {
		return h.run(t, append([]string{program(t, "probe.py"), "-d", "digits", "-e", "1", "-b", "8", "-p", "30", "--static"}, more...)...)
	}
	calm := job()
	r := job("--arg", "do=train-kills", "--arg", "once="+filepath.Join(h.dir, "killed-"))
	t.Logf("%.1f s with %d workers, %.1f s when all are killed and replaced", calm.WallS, n, r.WallS)
	require.Equal(t, n, r.Retries)
	require.Zero(t, r.LostFunctions)
	require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
}
