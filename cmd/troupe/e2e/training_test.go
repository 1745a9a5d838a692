package e2e_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A round is a pure function: retries, delays and waves leave no trace in the
// model.
func TestE2ETroubleLeavesNoTraceInTheModel(t *testing.T) {
	h := newHome(t)
	job := func(more ...string) result {
		return h.train(t, append([]string{"-e", "10", "-b", "16", "-p", "4", "--static", "--lr", "0.1"}, more...)...)
	}
	quiet := job()
	require.Len(t, quiet.Epochs, 10)
	require.Zero(t, quiet.Retries)
	require.Zero(t, quiet.RejectedResults)
	require.GreaterOrEqual(t, quiet.Accuracy, 95.0)
	want := quiet.model(t)
	for name, c := range map[string]struct {
		flags  []string
		killed bool
	}{
		"killed and poisoned": {[]string{"--retries", "8", "--chaos", "kill=0.2,nan=0.2,seed=3"}, true},
		"slow":                {[]string{"--chaos", "slow=0.5,seed=1"}, false},
		"in waves":            {[]string{"--slots", "2"}, false},
		"one at a time":       {[]string{"--slots", "1"}, false},
		"once more":           {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := job(c.flags...)
			require.Len(t, r.Epochs, 10)
			require.Equal(t, c.killed, r.Retries > 0, "retries: %d", r.Retries)
			require.Equal(t, c.killed, r.RejectedResults > 0, "rejected results: %d", r.RejectedResults)
			require.Zero(t, r.LostFunctions)
			require.True(t, bytes.Equal(want, r.model(t)), "the model differs")
		})
	}
	require.Empty(t, files(t, h.tmp), "nothing temporary is left")
}

// Functions that are given up cost no sample, and no more than 3 points of
// accuracy over five seeds.
func TestE2EGivenUpFunctionsCostNoSample(t *testing.T) {
	h := newHome(t)
	const seeds = 5
	var calm, stormy float64
	lost := 0
	for seed := range seeds {
		job := func(more ...string) result {
			return h.train(t, append([]string{"-e", "10", "-b", "16", "-p", "4", "--static", "--lr", "0.1", "--seed", fmt.Sprint(seed)}, more...)...)
		}
		calm += job().Accuracy / seeds
		r := job("--retries", "0", "--chaos", fmt.Sprintf("kill=0.05,nan=0.05,seed=%d", seed))
		stormy += r.Accuracy / seeds
		lost += r.LostFunctions
	}
	require.Positive(t, lost)
	require.InDelta(t, calm, stormy, 3, "mean accuracy in percent")
}

func TestE2EDemo(t *testing.T) {
	h := newHome(t)
	e := h.troupe(t, "demo")
	require.Zero(t, e.code, e.err)
	require.Regexp(t, `job \w+ SUCCEEDED after \d+ epochs in .+\n  accuracy  9[5-9]\.\d %\n(.*\n)*  model     file:///.+\.safetensors\n`, e.out)
	require.Contains(t, e.err, "epoch 1/", "progress where there is no terminal: a line an epoch")
	require.NotContains(t, e.err, "\x1b", "and no escape sequences")
	require.NotEmpty(t, files(t, h.store))
}

func TestE2ESoftmaxLearnsToo(t *testing.T) {
	h := newHome(t)
	e := h.troupe(t, "run", "softmax", "-d", "digits", "-o", "json", "-e", "5", "--lr", "0.1", "--validate-every", "-1")
	require.Zero(t, e.code, e.err)
	require.GreaterOrEqual(t, parse(t, e.out).Accuracy, 90.0)
}
