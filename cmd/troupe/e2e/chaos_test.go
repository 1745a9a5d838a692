package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What breaks for real leaves no trace in the model: frozen processes, damaged
// answers, full disks.
func TestE2EChaosBreaksTheRealThing(t *testing.T) {
	t.Parallel()
	native := []string{"mlp", "-d", "digits", "-e", "4", "-b", "16", "-p", "4", "--static", "--lr", "0.1", "--slots", "4"}
	python := probe(t, "", "-e", "4")
	for name, job := range map[string][]string{
		"functions in Go":               native,
		"functions in Go, in processes": append(native, "--isolate"),
		"a PyTorch program":             python,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			calm := h.run(t, job...)
			for chaos, says := range map[string]string{
				"freeze=0.2":    `function failed`, // cut by its time-out, or as a straggler
				"corrupt=0.3":   `bytes are damaged: their CRC-32 is `,
				"disk-full=0.3": `no space left on device`,
			} {
				e := h.troupe(t, append(append([]string{"run"}, job...), "--retries", "9", "--no-backup", "--function-timeout", "3s", "-v", "-o", "json", "--chaos", chaos+",seed=5")...)
				require.Zero(t, e.code, e.err)
				r := parse(t, e.out)
				require.Positive(t, r.Retries, chaos)
				require.Zero(t, r.LostFunctions, chaos)
				require.Contains(t, e.err, says)
				if chaos == "corrupt=0.3" {
					require.Positive(t, r.RejectedResults)
				}
				require.True(t, bytes.Equal(calm.model(t), r.model(t)), "%s: the model differs", chaos)
			}
		})
	}
}

// children returns the processes whose parent is pid, but not zombies.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			one, err := strconv.Atoi(strings.Split(path, "/")[2])
			require.NoError(t, err)
			pids = append(pids, one)
		}
	}
	return pids
}

// With --isolate functions are processes: chaos kills them, and others come; a
// killed troupe takes them with it.
func TestE2EIsolatedFunctionsAreProcesses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	seen := map[int]bool{}
	watch := func(cmd *exec.Cmd) {
		for _, pid := range children(t, cmd.Process.Pid) {
			seen[pid] = true
		}
	}
	var out, errs bytes.Buffer
	cmd := h.command(t, "run", "mlp", "-d", "digits", "-e", "20", "-b", "16", "-p", "2", "--slots", "2", "--static", "--lr", "0.1",
		"--isolate", "--retries", "20", "-o", "json", "--chaos", "kill=0.3,slow=1,seed=1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			require.Zero(t, exitCode(t, err), errs.String())
			running = false
		case <-tick.C:
			watch(cmd)
		}
	}
	r := parse(t, out.String())
	require.Greater(t, r.Retries, 5)
	require.Greater(t, len(seen), 2, "killed processes were replaced")
	for pid := range seen {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "none is left")
	}

	hangs := h.command(t, "run", "mlp", "-d", "digits", "-p", "2", "--slots", "2", "--isolate", "--chaos", "freeze=1")
	require.NoError(t, hangs.Start())
	var pids []int
	require.Eventually(t, func() bool {
		pids = children(t, hangs.Process.Pid)
		return len(pids) == 2 && stopped(pids[0]) && stopped(pids[1])
	}, time.Minute, 5*time.Millisecond, "two processes that are stopped")
	require.NoError(t, hangs.Process.Kill())
	_ = hangs.Wait()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return letter(pid) == "" || letter(pid) == "Z" }, 10*time.Second, 5*time.Millisecond, "its end")
	}
}

func stopped(pid int) bool { return letter(pid) == "T" }

// letter is the state of a process, "" when there is none.
func letter(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
}
