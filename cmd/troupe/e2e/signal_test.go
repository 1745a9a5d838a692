package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// long is a job that no test waits for.
var long = []string{"run", "mlp", "-d", "digits", "-e", "100000", "-p", "2", "-o", "json"}

// running is a job in a process that has trained at least one epoch.
type running struct {
	cmd     *exec.Cmd
	out     io.Reader
	err     *bufio.Reader
	scratch []string // its folders for what need not outlive it
}

func start(t *testing.T, h home) *running {
	t.Helper()
	r := &running{cmd: h.command(t, long...)}
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := r.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.out, r.err = out, bufio.NewReader(stderr)
	for line := ""; !strings.HasPrefix(line, "epoch 1/"); {
		line, err = r.err.ReadString('\n')
		require.NoError(t, err)
	}
	r.scratch = scratchOf(t, r.cmd.Process.Pid)
	require.NotEmpty(t, r.scratch)
	return r
}

// scratchOf returns the scratch folders that a process holds open.
func scratchOf(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	var folders []string
	base := fmt.Sprintf("troupe-%d", os.Getuid())
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err == nil && filepath.Base(filepath.Dir(target)) == base {
			folders = append(folders, target)
		}
	}
	return folders
}

// wait waits for the end and returns what was still written.
func (r *running) wait(t *testing.T) ended {
	t.Helper()
	stderr := make(chan string)
	go func() {
		b, _ := io.ReadAll(r.err)
		stderr <- string(b)
	}()
	out, err := io.ReadAll(r.out)
	require.NoError(t, err)
	e := ended{out: string(out), err: <-stderr}
	e.code = exitCode(t, r.cmd.Wait())
	return e
}

func TestE2EFirstSignalStopsCleanly(t *testing.T) {
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			r := start(t, h)
			require.NoError(t, r.cmd.Process.Signal(signal))
			e := r.wait(t)
			require.Equal(t, 8, e.code, e.err)
			got := parse(t, e.out)
			require.Equal(t, "STOPPED", got.State)
			require.NotEmpty(t, got.Epochs)
			require.Contains(t, got.Error, name)
			require.Contains(t, e.err, "stopping after "+name)
			for _, folder := range r.scratch {
				require.NoDirExists(t, folder)
			}
			require.Empty(t, files(t, h.tmp))
		})
	}
}

// What the second signal leaves behind, the next start sweeps.
func TestE2ESecondSignalEndsAtOnce(t *testing.T) {
	h := newHome(t)
	r := start(t, h)
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM)) // another number: two equal ones may become one
	e := r.wait(t)
	require.Contains(t, []int{143, 130, 8}, e.code, "8 when the stop was quicker than the second signal: %s", e.err)
	h.train(t, "-e", "1")
	for _, folder := range r.scratch {
		require.NoDirExists(t, folder)
	}
}

// A job outlives whoever read its progress and its result.
func TestE2EReadersThatLeave(t *testing.T) {
	h := newHome(t)
	cmd := h.command(t, "run", "mlp", "-d", "digits", "-e", "3")
	out, in, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = in, in
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	require.NoError(t, out.Close())
	require.NoError(t, cmd.Wait())
	require.NotEmpty(t, files(t, filepath.Join(h.store, "models")), "the model is there")
}

func TestE2EResultThatCannotBeWritten(t *testing.T) {
	h := newHome(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	cmd := h.command(t, "run", "mlp", "-d", "digits", "-e", "1")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = full, &stderr
	require.Equal(t, 5, exitCode(t, cmd.Run()), stderr.String())
	require.Contains(t, stderr.String(), "troupe: cannot write to standard output")
}
