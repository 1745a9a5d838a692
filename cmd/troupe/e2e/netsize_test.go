//go:build netns

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Models of any size and of many tensors work across machines (reported case 31),
// and no process of ours holds more than one model's tables and a window of it.
// make cluster LONG=1 adds those that take minutes and many gigabytes.
func TestNetModelsOfAnySize(t *testing.T) {
	const (
		mib    = 1 << 20
		window = 96 * mib // the process itself, and what it moves bytes through
		entry  = 2 << 10  // of the tables of a model's and an optimizer's tensors
	)
	type size struct {
		name            string
		tensors, values int
		momentum        string
	}
	sizes := []size{
		{"3.9 MB", 1, 975_000, "0.9"},
		{"4.1 MB", 1, 1_025_000, "0.9"},
		{"50,000 tensors with an optimizer", 50_000, 16, "0.9"},
	}
	if lengthy() {
		sizes = append(sizes, size{"one tensor of 600 MB", 1, 150_000_000, ""}, size{"2.1 GB", 3, 175_000_000, ""})
	}
	m := newMachines(t, 1, 1, "1")
	succeed(t, m.server.ask(t, "function", "create", "--name", "big", "--code", program(t, "big.py")))
	succeed(t, m.server.ask(t, "dataset", "create", "--name", "few", "--from", m.server.samples(t, 4, 1, 1)))
	for _, c := range sizes {
		t.Run(c.name, func(t *testing.T) {
			args := []string{
				"train", "-f", "big", "-d", "few", "-e", "1", "-b", "1", "-K", "1", "-p", "2", "--static", "--no-backup", "--validate-every", "-1", "--follow",
				"--env", fmt.Sprint("TENSORS=", c.tensors), "--env", fmt.Sprint("VALUES=", c.values),
			}
			if c.momentum != "" {
				args = append(args, "--env", "MOMENTUM="+c.momentum)
			}
			began, end := time.Now(), make(chan ended, 1)
			go func() { end <- m.server.ask(t, args...) }()
			most := map[int]int64{m.server.cmd.Process.Pid: 0, m.nodes[0].cmd.Process.Pid: 0}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					for pid := range most {
						most[pid] = max(most[pid], anonymous(pid))
					}
					continue
				case e := <-end:
					succeed(t, e)
					require.Contains(t, e.err, "samples 4  ")
				}
				break
			}
			model := int64(4 * c.tensors * c.values)
			for pid, bytes := range most {
				t.Logf("model %.1f MiB in %d tensors: process %d held %.1f MiB of anonymous memory, %v", float64(model)/mib, c.tensors, pid, float64(bytes)/mib, time.Since(began).Round(time.Second))
				require.LessOrEqual(t, bytes, window+int64(c.tensors)*entry)
			}
			for _, line := range strings.Split(succeed(t, m.server.ask(t, "model", "list")).out, "\n")[1:] {
				if fields := strings.Fields(line); len(fields) > 0 {
					succeed(t, m.server.ask(t, "model", "delete", "-n", fields[0]))
				}
			}
		})
	}
}
