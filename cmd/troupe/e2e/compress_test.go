package e2e_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Answers of int8 train as well as whole ones, and to the same bits however often
// functions die, wherever they run, and whenever the process is killed and the job
// resumed: what one round lacked comes with the next.
func TestE2EEncodedAnswersLearnAndReplay(t *testing.T) {
	t.Parallel()
	asked := []string{"-e", "8", "-b", "16", "-p", "4", "-K", "6", "--static", "--lr", "0.1"}
	h := newHome(t)
	var whole, encoded float64
	var calm result
	for seed := range 2 {
		job := func(compress string) result {
			return h.train(t, append([]string{"--seed", fmt.Sprint(seed), "--compress", compress}, asked...)...)
		}
		whole += job("none").Accuracy / 2
		r := job("int8")
		if encoded += r.Accuracy / 2; seed == 0 {
			calm = r
		}
	}
	t.Logf("accuracy %.2f %% whole, %.2f %% in int8", whole, encoded)
	require.InDelta(t, whole, encoded, 1, "percent")

	asked = append(asked, "--compress", "int8")
	want := calm.model(t)
	require.NotEqual(t, want, h.train(t, append([]string{"--compress", "none"}, asked[:len(asked)-2]...)...).model(t))
	troubled := h.train(t, append([]string{"--retries", "8", "--slots", "2", "--chaos", "kill=0.2,nan=0.2,corrupt=0.1,seed=3"}, asked...)...)
	require.Positive(t, troubled.RejectedResults)
	require.True(t, bytes.Equal(want, troubled.model(t)), "the model differs")

	dying := newHome(t)
	binary, err := failing()
	require.NoError(t, err)
	dying.binary = binary
	e, _ := dying.dies(t, death{failpoint: "job.save.end:2"}, append([]string{"mlp", "-d", "digits"}, asked...)...)
	require.Negative(t, e.code, e.err)
	e = dying.troupe(t, "run", "--resume", "last", "-o", "json")
	require.Zero(t, e.code, e.err)
	resumed := parse(t, e.out)
	require.NotContains(t, e.out, "fresh_optimizers", "no residual was lost")
	require.True(t, bytes.Equal(want, resumed.model(t)), "the model differs")
}

// A program is encoded as any function is. The statistics of its BatchNorm layers
// are not: a variance stays positive beside one of any size.
func TestE2EEncodedProgramsKeepTheirBuffers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r := h.run(t, program(t, "norm"), "-d", "digits", "-b", "32", "--lr", "0.05", "-p", "2", "--static", "-e", "6", "--compress", "int8")
	require.GreaterOrEqual(t, r.Accuracy, 93.0)
	for _, x := range tensors(t, r.path(t)) {
		if filepath.Ext(x.Name) == ".running_var" {
			for _, v := range x.Float64() {
				require.Positive(t, v, "%s: no variance is negative", x.Name)
			}
		}
	}
}
