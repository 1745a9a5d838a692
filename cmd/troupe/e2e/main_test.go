package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/netns"
)

// binary is the program under test, failing the same with failpoints, made when
// it is first needed. Empty under -short.
var (
	binary  string
	failing = sync.OnceValues(func() (string, error) {
		path := filepath.Join(filepath.Dir(binary), "troupe-failing")
		return path, build(path, "-tags", "invariants")
	})
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return 0 // whole jobs in real processes are not short
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(sig) { // under nohup, or in the background: what is caught here is not ignored by the processes of tests
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	dir, err := os.MkdirTemp("", "troupe-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "troupe")
	if err := build(binary); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return m.Run()
}

func build(path string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "github.com/troupe-ml/troupe/cmd/troupe")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// home is where one user's processes live.
type home struct {
	dir, store, tmp string
	binary          string
	namespace       string // of the network that its processes are in; "": this machine's
}

func newHome(t *testing.T) home {
	dir := t.TempDir()
	h := home{dir: dir, store: filepath.Join(dir, "data", "troupe"), tmp: filepath.Join(dir, "tmp"), binary: binary}
	require.NoError(t, os.Mkdir(h.tmp, 0o700))
	return h
}

// patience is how long a process may take that would take seconds, or half a
// minute. One that hangs then says where, on stderr.
const patience = 5 * time.Minute

// command is a command line of troupe, not started yet.
func (h home) command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := netns.Command(ctx, h.namespace, h.binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.Dir = h.dir
	cmd.Env = []string{"HOME=" + h.dir, "XDG_DATA_HOME=" + filepath.Join(h.dir, "data"), "TMPDIR=" + h.tmp, "TERM=xterm", "TROUPE_SERVER=none"}
	if python := os.Getenv("TROUPE_PYTHON"); python != "" {
		cmd.Env = append(cmd.Env, "TROUPE_PYTHON="+python)
	}
	return cmd
}

// ended is a process that has ended.
type ended struct {
	code     int
	out, err string
}

// troupe runs a command line to its end.
func (h home) troupe(t *testing.T, args ...string) ended {
	t.Helper()
	var out, err bytes.Buffer
	cmd := h.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	code := exitCode(t, cmd.Run())
	return ended{code, out.String(), err.String()}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// result is what -o json prints. The fields are those that tests look at.
type result struct {
	JobID          string  `json:"job_id"`
	State          string  `json:"state"`
	Accuracy       float64 `json:"accuracy"`
	ValidationLoss float64 `json:"validation_loss"`
	Epochs         []struct {
		TrainLoss   float64 `json:"train_loss"`
		Parallelism int     `json:"parallelism"`
		Epoch       int     `json:"epoch"`
		Samples     int     `json:"samples"`
		Dropped     int     `json:"dropped_samples"`
		Rounds      int     `json:"rounds"`

		Accuracy *float64 `json:"accuracy"`
	} `json:"epochs"`
	Retries         int     `json:"retries"`
	LostFunctions   int     `json:"lost_functions"`
	RejectedResults int     `json:"rejected_results"`
	WallS           float64 `json:"wall_s"`
	Model           string  `json:"model"`
	Error           string  `json:"error"`
}

// train runs a job on digits, which must succeed with every sample in every
// epoch.
func (h home) train(t *testing.T, flags ...string) result {
	t.Helper()
	e := h.troupe(t, append([]string{"run", "mlp", "-d", "digits", "-o", "json"}, flags...)...)
	require.Zero(t, e.code, e.err)
	r := parse(t, e.out)
	require.Equal(t, "SUCCEEDED", r.State)
	require.Contains(t, strings.SplitN(e.err, "\n", 2)[0], r.JobID, "the first line on stderr names the job")
	for i, epoch := range r.Epochs {
		require.Equal(t, i+1, epoch.Epoch)
		require.Equal(t, 1437, epoch.Samples, "epoch %d", epoch.Epoch)
	}
	return r
}

// parse reads the result, which must be all there is.
func parse(t *testing.T, out string) result {
	t.Helper()
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.Equal(t, 1, strings.Count(out, "\n"), out)
	return r
}

// path is where a job's model is.
func (r result) path(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(r.Model)
	require.NoError(t, err)
	require.Equal(t, "file", u.Scheme)
	return u.Path
}

// model returns the bytes of a job's model.
func (r result) model(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(r.path(t))
	require.NoError(t, err)
	require.NotEmpty(t, b)
	return b
}

// files lists all files below dir, which need not exist.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	return all
}
