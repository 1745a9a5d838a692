package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/python"
)

// record keeps what a runtime says.
type record struct {
	mu       sync.Mutex // guards what follows
	lines    []python.Line
	warnings []string
}

func (r *record) log(l python.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
}

func (r *record) warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

func (r *record) warned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
}

func (r *record) all() []python.Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]python.Line(nil), r.lines...)
}

// rig is a runtime under test, which leaves nothing behind.
type rig struct {
	*python.Runtime
	*record
	user string // the folder of the user, whose path all its processes know
}

// open returns a runtime with real programs, of testdata.
func open(t *testing.T, config python.Config, programs ...string) rig {
	t.Helper()
	r := newRig(t, config)
	for _, name := range programs {
		path, err := filepath.Abs(filepath.Join("testdata", name+".py"))
		require.NoError(t, err)
		require.NoError(t, r.Register(python.Program{Name: name, Path: path}))
	}
	return r
}

// fake returns a runtime whose Python packages are fakes, which start fast and
// misbehave as the programs' names say.
func fake(t *testing.T, config python.Config, programs ...string) rig {
	t.Helper()
	config.SDK = os.DirFS("testdata/fake")
	r := newRig(t, config)
	dir := t.TempDir()
	for _, name := range programs {
		path := filepath.Join(dir, name+".py")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, r.Register(python.Program{Name: name, Path: path}))
	}
	return r
}

func newRig(t *testing.T, config python.Config) rig {
	t.Helper()
	testkit.LeakCheck(t)
	r := rig{record: &record{}, user: config.UserDir}
	if r.user == "" {
		r.user = private(t)
	}
	before := folders(t, r.user)
	files := descriptors(t)
	config.UserDir, config.Log, config.Warn = r.user, r.log, r.warn
	var err error
	r.Runtime, err = python.New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.Empty(t, processes(t, r.user))
		require.Empty(t, children(t), "not even a zombie")
		require.Subset(t, before, folders(t, r.user))
		require.LessOrEqual(t, descriptors(t), files)
	})
	return r
}

// private returns a folder of this user alone, with a short path.
func private(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// folders returns those of runtimes in a user's folder.
func folders(t testing.TB, user string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(user, "python-*"))
	require.NoError(t, err)
	return list
}

// processes returns those that have the path of a user's folder in their
// environment: Python processes of a rig, and what they started.
func processes(t testing.TB, user string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range all {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte("TROUPE_SOCKET="+user)) {
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// children returns the processes whose parent we are, zombies too.
func children(t testing.TB) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if statFields(stat)[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// descriptors counts the open files of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// eventually waits for something that other processes do.
func eventually(t testing.TB, within time.Duration, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, within, 5*time.Millisecond, what)
}

// heard waits for a line that begins with a prefix and returns the rest of it.
func heard(t testing.TB, r rig, prefix string) (rest string) {
	t.Helper()
	eventually(t, 30*time.Second, func() bool {
		for _, l := range r.all() {
			if s, ok := strings.CutPrefix(l.Text, prefix); ok {
				rest = s
				return true
			}
		}
		return false
	}, prefix)
	return rest
}

// said is what a fake worker says of itself.
type said struct {
	PID, Group, Slot, Threads int
	CPUs                      []int
	Memory                    int64
	Request                   map[string]any
}

// ask has a fake worker do something.
func ask(ctx context.Context, r rig, function, do string, slot int) (said, error) {
	answer, err := r.Run(ctx, functions.Invocation{
		Task: functions.Infer, Function: function, Slot: slot, Args: map[string]string{"do": do}, Infer: json.RawMessage("[]"),
	})
	var s said
	if err == nil {
		err = json.Unmarshal(answer.Predictions, &s)
	}
	return s, err
}

// training is an invocation of a real program, of 64 samples in 4 batches.
func training(t testing.TB, r rig, function string) functions.Invocation {
	t.Helper()
	const n = 64
	x, y := make([]float32, n*8), make([]int64, n)
	for i := range y {
		y[i] = int64(i % 4)
		x[8*i+2*(i%4)] = 1
	}
	inv := functions.Invocation{
		Task: functions.Init, Function: function, JobID: "job", N: 1, K: -1, BatchSize: 16, LR: 0.1, Seed: 5,
		Data: functionstest.Data(t, []int64{n, 4, 2}, x, y),
	}
	var model functions.Buffer
	inv.ModelOut = &model
	_, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	inv.Task, inv.Epoch, inv.Positions, inv.Model, inv.ModelOut = functions.Train, 1, functionstest.Range(n), model.Input(), nil
	return inv
}

// with returns inv with an argument more.
func with(inv functions.Invocation, key, value string) functions.Invocation {
	inv.Args = map[string]string{key: value}
	return inv
}

// statFields are those of a /proc/PID/stat, from the state on.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// parent returns the parent of a process.
func parent(t testing.TB, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	ppid, err := strconv.Atoi(statFields(stat)[1])
	require.NoError(t, err)
	return ppid
}

// running reports whether a process is there and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && statFields(stat)[0] != "Z"
}
