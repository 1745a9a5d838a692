package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/loopback"
)

// What functions print on another node, and where they are, is seen from the server
// as it happens; who follows the log has seen every line once when the job has ended.
func TestE2EFunctionsOfAnotherNodeAreSeen(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s, nodes := h.cluster(t, 1)
	g := newGate(t, h)
	g.shut(t)
	succeed(t, s.ask(t, "function", "create", "--name", "gate", "--code", program(t, "gate.py")))
	e := succeed(t, s.ask(t, "train", "-f", "gate", "-d", "digits", "-e", "3", "-b", "32", "--lr", "0.005", "-K", "-1", "-p", "4", "--static", "--arg", "gate="+string(g)))
	id := strings.TrimSpace(e.out)
	logs := s.follow(t, "logs", "--id", id, "-f")
	await(t, patience, "all functions at the gate", func() bool {
		here, _ := os.ReadFile(g.file("here"))
		return strings.Count(string(here), "here") == 4
	})
	await(t, patience, "what they have printed until then", func() bool {
		said := succeed(t, s.ask(t, "logs", "--id", id)).out
		return strings.Count(said, "| epoch 1 lr 0.005\n") == 4 && strings.Count(said, "| epoch 2 lr 5e-07\n") == 4
	})
	stacks := succeed(t, s.ask(t, "stacks", "--id", id)).out
	for f := range 4 {
		require.Contains(t, stacks, fmt.Sprintf("function %d on ", f))
	}
	require.Equal(t, 2, strings.Count(stacks, " on "+nodes[0].name+":\n"), stacks)
	require.GreaterOrEqual(t, strings.Count(stacks, "pass_gate"), 4, stacks)
	g.open(t)
	require.Zero(t, logs.wait(t), logs.said.String())
	for f := range 4 {
		var said []string
		for line := range strings.Lines(logs.out.String()) {
			if text, is := strings.CutPrefix(line, fmt.Sprintf("%d| ", f)); is {
				said = append(said, strings.TrimSpace(text))
			}
		}
		require.Equal(t, []string{"epoch 1 lr 0.005", "epoch 2 lr 5e-07", "epoch 3 lr 5e-07"}, said)
	}
	require.Zero(t, nodes[0].end(t, syscall.SIGTERM))
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// A function behind a URL that every node can call runs on the slots of all of them,
// and gives the model of one node; one that this machine alone can call stays here.
func TestE2EEndpointsOfAllNodes(t *testing.T) {
	t.Parallel()
	h, one := newHome(t), newHome(t)
	s, nodes := h.cluster(t, 1)
	near := h.serve(t, "0", "--function", "mlp", "--slots", "4")
	far := strings.Replace(near.url, "127.0.0.1", "localhost.", 1) // where there is no other address: a name that others could give
	for _, address := range loopback.Others() {
		if address.To4() != nil {
			far = h.serve(t, "0", "--function", "mlp", "--slots", "4", "--host", address.String()).url
			break
		}
	}
	succeed(t, s.ask(t, "function", "create", "--name", "far", "--url", far))
	succeed(t, s.ask(t, "function", "create", "--name", "near", "--url", near.url))
	flags := []string{"-e", "4", "-p", "4", "--static"}
	want := one.train(t, flags...).model(t)
	most := map[string]int{} // slots of the node that were seen at work
	for _, name := range []string{"far", "near"} {
		id := strings.TrimSpace(succeed(t, s.ask(t, append([]string{"train", "-f", name, "-d", "digits", "--chaos", "slow=1,seed=3"}, flags...)...)).out)
		await(t, patience, "the end", func() bool {
			most[name] = max(most[name], s.busy(t)[nodes[0].name])
			return s.show(t, id).Phase == "SUCCEEDED"
		})
		got, err := os.ReadFile(filepath.Join(h.store, "models", id+".1.safetensors"))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, map[string]int{"far": 2, "near": 0}, most)
}
