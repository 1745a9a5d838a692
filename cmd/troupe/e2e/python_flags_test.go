package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// told is what an invocation of tell.py was told.
type told struct {
	Epoch, Function int
	LR              float64
	Args            map[string]string
	Colour          string
	Body, Head      float64 // a weight of the round's model
}

// tell runs tell.py and returns what function 0 was told, by round.
func (h home) tell(t *testing.T, flags ...string) (result, []told) {
	t.Helper()
	r := h.run(t, append([]string{program(t, "tell.py"), "-d", "digits", "-p", "2", "--static", "--lr", "0.1", "-K", "-1"}, flags...)...)
	var all []told
	for line := range strings.Lines(h.log(t, r)) {
		if text, ok := strings.CutPrefix(line, "told "); ok {
			var one told
			require.NoError(t, json.Unmarshal([]byte(text), &one))
			if one.Function == 0 {
				all = append(all, one)
			}
		}
	}
	return r, all
}

// What the flags say reaches the program, and what that prints the job's log.
func TestE2EPythonFlags(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r, linear := h.tell(t, "-e", "4", "--lr-scale", "linear", "--warmup", "3",
		"--arg", "depth=3", "--arg", "word=a=b, c", "--env", "COLOUR=red", "--env", "OUT=12")
	require.Contains(t, h.log(t, r), "imported where COLOUR is red\n")
	require.Len(t, linear, 4)
	for i, rate := range []float64{0.2 / 3, 0.4 / 3, 0.2, 0.2} {
		require.Equal(t, i+1, linear[i].Epoch)
		require.InEpsilon(t, rate, linear[i].LR, 1e-12, "epoch %d", i+1)
		require.Equal(t, map[string]string{"depth": "3", "word": "a=b, c"}, linear[i].Args)
		require.Equal(t, "red", linear[i].Colour)
	}
	_, root := h.tell(t, "-e", "1", "--lr-scale", "sqrt")
	require.InEpsilon(t, 0.1*1.4142135623730951, root[0].LR, 1e-12)
	_, plain := h.tell(t, "-e", "1")
	require.Equal(t, 0.1, plain[0].LR)
	require.NotEqual(t, root[0], linear[0])

	weight := func(r result, name string) float64 {
		w, ok := tensors(t, r.path(t)).Get(name)
		require.True(t, ok)
		return w.Float64()[0]
	}
	first, _ := h.tell(t, "-e", "1", "--seed", "1")
	t.Run("--init", func(t *testing.T) {
		for _, from := range []string{first.JobID, first.path(t)} {
			_, after := h.tell(t, "-e", "1", "--init", from)
			require.Equal(t, weight(first, "body.weight"), after[0].Body)
			require.Equal(t, weight(first, "head.weight"), after[0].Head)
		}
	})
	t.Run("--init with another head", func(t *testing.T) {
		r, _ := h.fail(t, program(t, "tell.py"), "-d", "digits", "-p", "2", "-e", "1", "--env", "OUT=12", "--init", first.JobID)
		require.Contains(t, r.Error, "head.weight")
		require.Contains(t, r.Error, "--init-partial")
	})
	t.Run("--init-partial", func(t *testing.T) {
		_, after := h.tell(t, "-e", "1", "--env", "OUT=12", "--init", first.JobID, "--init-partial")
		require.Equal(t, weight(first, "body.weight"), after[0].Body)
		require.NotEqual(t, weight(first, "head.weight"), after[0].Head)
	})
}

// Programs that no process can be forked from train too, with one warning; one
// that merely computes when it is imported needs none.
func TestE2EPythonImportsThatForbidForks(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/probe.py")
	require.NoError(t, err)
	h := newHome(t)
	for name, c := range map[string]struct{ code, warning string }{
		"computes": {"import torch\ntorch.nn.Conv2d(8, 8, 3)(torch.zeros(16, 8, 32, 32)).sum().backward()\n", ""},
		"thread":   {"import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n", "starts threads"},
		"threads":  {"import torch\ntorch.set_num_threads(4)\n", "torch.set_num_threads(4)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := h.save(t, name+".py", append([]byte(c.code), source...))
			e := h.troupe(t, "run", path, "-d", "digits", "-e", "2", "-p", "2", "-o", "json")
			require.Zero(t, e.code, e.err)
			require.Greater(t, parse(t, e.out).Accuracy, 80.0)
			if c.warning == "" {
				require.NotContains(t, e.err, "warning")
				return
			}
			require.Equal(t, 1, strings.Count(e.err, "warning"), e.err)
			require.Regexp(t, `troupe: warning: function `+name+`: .*`+c.warning[:5], e.err)
			require.Contains(t, e.err, c.warning)
		})
	}
}

// Without a Python that has torch: how to get one.
func TestE2EPythonWithoutTorch(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command(t, "run", program(t, "probe.py"), "-d", "digits", "-o", "json")
	cmd.Env = append(cmd.Env, "TROUPE_PYTHON=/bin/false")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.Equal(t, 5, exitCode(t, cmd.Run()), stderr.String())
	for _, part := range []string{"/bin/false", "apt", "python3-torch", "pip", "conda"} {
		require.Contains(t, stderr.String(), part)
	}
}
