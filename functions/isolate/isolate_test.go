package isolate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/isolate"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
)

// rig is a runtime with what it logs.
type rig struct {
	*isolate.Runtime
	mu    sync.Mutex // guards lines
	lines []child.Line
}

func open(t *testing.T, c isolate.Config) *rig {
	t.Helper()
	inner, err := native.New(known()...)
	require.NoError(t, err)
	r := &rig{}
	c.Knows, c.Dir = inner, t.TempDir()
	c.Log = func(l child.Line) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, l)
	}
	r.Runtime = isolate.New(c)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		left, err := os.ReadDir(c.Dir)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files")
	})
	return r
}

// text is all that was logged.
func (r *rig) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	for _, l := range r.lines {
		all.WriteString(l.Text + "\n")
	}
	return all.String()
}

// pid asks for the process of a slot.
func (r *rig) pid(t *testing.T, slot int) int {
	t.Helper()
	answer, err := r.Run(t.Context(), asking("well", slot))
	require.NoError(t, err)
	var pids []int
	require.NoError(t, json.Unmarshal(answer.Predictions, &pids))
	return pids[0]
}

// state is the state letter of a process, "" when there is none.
func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
}

func gone(pid int) bool { return state(pid) == "" || state(pid) == "Z" }

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 5*time.Millisecond, what)
}

func TestIsolatedConforms(t *testing.T) {
	for _, function := range []string{"softmax", "mlp"} {
		t.Run(function, func(t *testing.T) {
			functionstest.Run(t, func(t *testing.T) functionstest.Subject {
				return functionstest.Subject{Runtime: open(t, isolate.Config{}), Function: function, Raises: "raises"}
			})
		})
	}
}

// Isolated or not, a function gives the same bits.
func TestIsolatedGivesTheSameBits(t *testing.T) {
	inner, err := native.New()
	require.NoError(t, err)
	data := functionstest.Data(t, []int64{6, 2}, []float32{0, 1, 5, 5, 1, 0, 6, 5, 0, 0, 5, 6}, []int64{0, 1, 0, 1, 0, 1})
	var first functions.Buffer
	_, err = inner.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "mlp", Data: data, Seed: 3, ModelOut: &first})
	require.NoError(t, err)
	train := func(r functions.Runtime) (functions.Answer, []byte, []byte) {
		var model, optimizer functions.Buffer
		answer, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Train, Function: "mlp", Data: data, Epoch: 1, N: 1, BatchSize: 4, LR: 0.1, Seed: 9,
			Positions: functionstest.Range(6), Model: first.Input(), ModelOut: &model, OptimizerOut: &optimizer,
		})
		require.NoError(t, err)
		return answer, model.Bytes(), optimizer.Bytes()
	}
	answer, model, optimizer := train(inner)
	isolated, itsModel, itsOptimizer := train(open(t, isolate.Config{}))
	require.Equal(t, answer, isolated)
	require.Equal(t, model, itsModel)
	require.Equal(t, optimizer, itsOptimizer)
}

// A child stays warm from call to call, one for each slot.
func TestChildrenStayWarm(t *testing.T) {
	r := open(t, isolate.Config{})
	zero, one := r.pid(t, 0), r.pid(t, 1)
	require.NotEqual(t, zero, one)
	require.NotEqual(t, os.Getpid(), zero)
	require.Equal(t, zero, r.pid(t, 0))
	require.NoError(t, syscall.Kill(zero, syscall.SIGKILL))
	eventually(t, func() bool { // whoever comes before its end is noticed loses an attempt
		_, err := r.Run(t.Context(), asking("well", 0))
		return err == nil
	}, "another child")
	require.NotEqual(t, zero, r.pid(t, 0), "it is replaced")
	require.Equal(t, one, r.pid(t, 1), "and no other")
	require.NoError(t, r.Close())
	require.True(t, gone(one))
}

// What a function that raised has left behind is of no concern to the next try.
func TestAChildThatRaisedIsReplaced(t *testing.T) {
	r := open(t, isolate.Config{})
	pid := r.pid(t, 0)
	inv := asking("raises", 0)
	_, err := r.Run(t.Context(), inv)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "it answers no points: a request that cannot work leaves the child alone")
	require.Equal(t, pid, r.pid(t, 0))
	_, err = r.Run(t.Context(), asking("fails", 0))
	require.Equal(t, fault.UserCode, fault.KindOf(err), err)
	require.NotEqual(t, pid, r.pid(t, 0))
}

func TestAnIdleChildEnds(t *testing.T) {
	r := open(t, isolate.Config{IdleTimeout: time.Millisecond})
	pid := r.pid(t, 0)
	eventually(t, func() bool { return gone(pid) }, "the end of a child with nothing to do")
	require.NotEqual(t, pid, r.pid(t, 0))
}

// Whatever a function does to its process is a failure of that attempt only.
func TestFunctionsThatBreakTheirProcess(t *testing.T) {
	r := open(t, isolate.Config{MemoryLimit: 512 << 20})
	other := r.pid(t, 1)
	for function, says := range map[string]string{
		"exits":     "ended with exit status 3",
		"panics":    "ended with exit status 2: panic: on a goroutine of its own",
		"segfaults": "ended with exit status 2: SIGSEGV: segmentation violation",
		"is-killed": "was killed by signal 9 (SIGKILL)",
		"overflows": "ended with exit status 2: fatal error: stack overflow",
		"hoards":    "ended with exit status 2: fatal error: ",
	} {
		t.Run(function, func(t *testing.T) {
			_, err := r.Run(t.Context(), asking(function, 0))
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "the process of function \""+function+"\" (")
			r.pid(t, 0)
		})
	}
	require.Equal(t, other, r.pid(t, 1), "no other process was touched")
	require.Contains(t, r.text(), "goroutine ", "the log has the stacks")
}

// A function that heeds nothing is killed when its time is over, after its
// stacks were written to the log.
func TestAFunctionThatHeedsNothingIsKilled(t *testing.T) {
	r := open(t, isolate.Config{})
	pid := r.pid(t, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, asking("spins", 0))
		end <- err
	}()
	eventually(t, func() bool { return strings.Contains(r.text(), "spinning") }, "it spins")
	cut := time.Now()
	cancel(context.DeadlineExceeded)
	require.ErrorIs(t, <-end, context.Canceled)
	require.Less(t, time.Since(cut), time.Second)
	require.True(t, gone(pid))
	require.Contains(t, r.text(), "isolate_test.known.func")
	r.pid(t, 0)
}

// Where an isolated function is can be seen while it runs, again and again, though it
// heeds nothing, and without harm to it; a frozen one does not say.
func TestStacksOfIsolatedFunctions(t *testing.T) {
	r := open(t, isolate.Config{})
	pid := r.pid(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = r.Run(ctx, asking("spins", 0)) })
	defer wg.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return strings.Contains(r.text(), "spinning") }, time.Minute, time.Millisecond)
	for range 3 {
		require.Regexp(t, `(?s)isolate_test\.known\.func\d+ .*main_test\.go:\d+`, r.Stacks("job")[4])
	}
	require.Empty(t, r.Stacks("another"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Regexp(t, `process \d+ has not said within 1s where it is`, r.Stacks("job")[4])
}

// A frozen child is a process that is really stopped, and really killed after.
func TestAFrozenChildIsStoppedAndThenKilled(t *testing.T) {
	r := open(t, isolate.Config{})
	pid := r.pid(t, 0)
	inv := asking("well", 0)
	inv.Sabotage.Freeze = true
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, inv)
		end <- err
	}()
	eventually(t, func() bool { return state(pid) == "T" }, "a process that is stopped")
	cancel()
	require.ErrorIs(t, <-end, context.Canceled)
	require.True(t, gone(pid))
}

// A child that sabotage kills is killed by SIGKILL.
func TestSabotageKillsTheProcess(t *testing.T) {
	r := open(t, isolate.Config{})
	pid := r.pid(t, 0)
	inv := asking("well", 0)
	inv.Sabotage.Kill = true
	_, err := r.Run(t.Context(), inv)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "killed on purpose")
	require.True(t, gone(pid))
}

func TestChildrenThatDoNotBegin(t *testing.T) {
	r := open(t, isolate.Config{})
	for how, says := range map[string]string{
		"refuses": "no functions today",
		"exits":   "ended with exit status 9 before it was ready: last words: call actors.Isolated",
	} {
		t.Setenv("TROUPE_TEST_CHILD", how)
		_, err := r.Run(t.Context(), asking("well", 0))
		require.ErrorContains(t, err, says)
	}
}

func TestCloseCutsWhatRuns(t *testing.T) {
	r := open(t, isolate.Config{})
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), asking("spins", 0))
		end <- err
	}()
	eventually(t, func() bool { return strings.Contains(r.text(), "spinning") }, "it spins")
	require.NoError(t, r.Close())
	err := <-end
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "is closed")
	require.Empty(t, childrenOf(t, os.Getpid()))
}

// However this process ends, its children end with it, though their functions
// heed nothing, and though they are frozen.
func TestChildrenDieWithTheirHost(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		host := exec.Command("/proc/self/exe")
		host.Env = append(os.Environ(), "TROUPE_TEST_HOST="+t.TempDir())
		host.Stderr = os.Stderr
		out, err := host.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, host.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		pids := childrenOf(t, host.Process.Pid)
		require.Len(t, pids, 2)
		if frozen {
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
		}
		require.NoError(t, host.Process.Kill())
		_ = host.Wait()
		for _, pid := range pids {
			eventually(t, func() bool { return gone(pid) }, "the end of a child")
		}
	}
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(t testing.TB, pid int) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) {
			one, err := strconv.Atoi(strings.Split(path, "/")[2])
			require.NoError(t, err)
			pids = append(pids, one)
		}
	}
	return pids
}
