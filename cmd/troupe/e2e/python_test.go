package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is the path of a program in testdata.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	require.NoError(t, err)
	return path
}

// fashionMNIST is the folder of the data set's four IDX files.
func fashionMNIST(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("FASHION_MNIST")
	if folder == "" {
		folder = "/usr/share/datasets/fashion-mnist"
	}
	require.DirExists(t, folder, "run `make test`, which installs Fashion-MNIST, or set FASHION_MNIST to the folder of its four IDX files")
	return folder
}

// python runs the interpreter that troupe would take, on a script in testdata.
func python(t *testing.T, script string, args ...string) string {
	t.Helper()
	interpreter := os.Getenv("TROUPE_PYTHON")
	if interpreter == "" {
		interpreter = "/usr/bin/python3"
	}
	var stderr bytes.Buffer
	cmd := exec.Command(interpreter, append([]string{"-B", program(t, script)}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s needs torch and numpy, which `make test` installs: %s", interpreter, stderr.String())
	return string(out)
}

// run runs a job that must succeed.
func (h home) run(t *testing.T, args ...string) result {
	t.Helper()
	e := h.troupe(t, append([]string{"run", "-o", "json"}, args...)...)
	require.Zero(t, e.code, e.err)
	r := parse(t, e.out)
	require.Equal(t, "SUCCEEDED", r.State)
	return r
}

// fail runs a job that must end FAILED.
func (h home) fail(t *testing.T, args ...string) (result, ended) {
	t.Helper()
	e := h.troupe(t, append([]string{"run", "-o", "json"}, args...)...)
	require.Equal(t, 7, e.code, "%s%s", e.out, e.err)
	r := parse(t, e.out)
	require.Equal(t, "FAILED", r.State)
	return r, e
}

// begin starts a job and returns when it has an id.
func (h home) begin(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{cmd: h.command(t, append([]string{"run", "-o", "json"}, args...)...)}
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := r.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.out, r.err = out, bufio.NewReader(stderr)
	for line := ""; !strings.HasPrefix(line, "job "); {
		line, err = r.err.ReadString('\n')
		require.NoError(t, err, line)
	}
	r.scratch = scratchOf(t, r.cmd.Process.Pid)
	require.NotEmpty(t, r.scratch)
	return r
}

// log is all that the functions of a job printed.
func (h home) log(t *testing.T, r result) string {
	t.Helper()
	var all strings.Builder
	for _, path := range files(t, filepath.Join(h.store, "jobs", r.JobID, "logs")) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(b)
	}
	return all.String()
}

// processes are those, alive, that descend from a troupe of this home: nobody
// takes HOME out of their environment. Zombies have no environment.
func (h home) processes(t *testing.T) []int {
	t.Helper()
	var pids []int
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range environs {
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(append([]byte{0}, b...), []byte("\x00HOME="+h.dir+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// leaves checks that of a process that has ended nothing is left.
func (h home) leaves(t *testing.T, r *running) {
	t.Helper()
	require.Empty(t, h.processes(t), "processes that outlived troupe")
	for _, folder := range r.scratch {
		require.NoDirExists(t, folder)
	}
	require.Empty(t, files(t, h.tmp))
}

// await waits until is true, looking often.
func await(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, limit, 10*time.Millisecond, what)
}

// The command of the README; and broken on purpose, the same model.
func TestE2EPythonLeNet(t *testing.T) {
	t.Parallel()
	data := fashionMNIST(t)
	lenet, err := filepath.Abs("../../../examples/lenet.py")
	require.NoError(t, err)
	chaos := []string{"--chaos", "kill=0.1,hang=0.02", "--function-timeout", "20s"}
	models := make([][]byte, 2)
	t.Run("both", func(t *testing.T) {
		for i, flags := range [][]string{nil, chaos} {
			t.Run(fmt.Sprintf("chaos=%v", flags != nil), func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				job := h.begin(t, append([]string{lenet, "-d", data, "-e", "3", "-b", "128", "--lr", "0.02", "-p", "2", "--static"}, flags...)...)
				e := job.wait(t)
				require.Zero(t, e.code, e.err)
				h.leaves(t, job)
				r := parse(t, e.out)
				require.Equal(t, "SUCCEEDED", r.State)
				require.GreaterOrEqual(t, r.Accuracy, 80.0)
				require.Len(t, r.Epochs, 3)
				for _, epoch := range r.Epochs {
					require.Equal(t, 60000, epoch.Samples)
				}
				require.Equal(t, flags != nil, r.Retries > 0, "retries: %d", r.Retries)
				require.LessOrEqual(t, strings.Count(e.err, "offers none"), 1, "that there is no GPU is said once: %s", e.err)
				t.Logf("accuracy %.2f %%, %d retries, %.1f s", r.Accuracy, r.Retries, r.WallS)
				models[i] = r.model(t)
			})
		}
	})
	require.NotEmpty(t, models[0])
	require.True(t, bytes.Equal(models[0], models[1]), "the model differs")
}

// What kill -9 leaves: no process, and scratch that the next start sweeps.
func TestE2EPythonEndsWithTroupe(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	mark := filepath.Join(h.dir, "mark")
	job := h.begin(t, program(t, "probe.py"), "-d", "digits", "-p", "2", "--arg", "do=train-sleeps", "--arg", "step=3", "--arg", "mark="+mark)
	await(t, time.Minute, "both functions are in the middle of a round", func() bool {
		b, _ := os.ReadFile(mark)
		return bytes.Count(b, []byte("\n")) == 2
	})
	require.GreaterOrEqual(t, len(h.processes(t)), 4, "troupe, the zygote, two workers")
	require.NoError(t, job.cmd.Process.Kill())
	await(t, 3*time.Second, "the workers end", func() bool { return len(h.processes(t)) == 0 })
	_ = job.cmd.Wait()
	h.run(t, program(t, "probe.py"), "-d", "digits", "-e", "1", "-p", "2")
	h.leaves(t, job)
}
