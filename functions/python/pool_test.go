package python_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
)

// clock is one that only the test advances: timers fire when it says.
type clock struct {
	mu     sync.Mutex // guards what follows
	timers []*timer
}

type timer struct {
	after time.Duration
	f     func()
	off   bool
}

func (c *clock) after(d time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{after: d, f: f}
	c.timers = append(c.timers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.off = true
	}
}

// fire ends every timer that is set now, and returns how many there were.
func (c *clock) fire() (n int) {
	c.mu.Lock()
	due := c.timers
	c.timers = nil
	c.mu.Unlock()
	for _, t := range due {
		if !t.off {
			t.f()
			n++
		}
	}
	return n
}

func TestIdleWorkersAreLetGo(t *testing.T) {
	c := &clock{}
	r := fake(t, python.Config{Slots: 2, IdleTimeout: time.Hour, After: c.after}, "any")
	first, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	second, err := ask(t.Context(), r, "any", "ok", 1)
	require.NoError(t, err)
	require.NotEqual(t, first.PID, second.PID)
	again, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	require.Equal(t, first.PID, again.PID, "workers stay warm")
	require.Len(t, processes(t, r.user), 3, "the zygote and two workers")
	for _, timer := range c.timers {
		require.Equal(t, time.Hour, timer.after)
	}
	require.Equal(t, 2, c.fire(), "one for each worker: that of the first run was stopped")
	c.fire() // the zygote's, if the last worker set one
	require.Empty(t, processes(t, r.user))

	_, err = ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err, "and start again when they are needed")
	_, err = ask(t.Context(), r, "any", "exit", 0)
	require.Error(t, err)
	require.Len(t, processes(t, r.user), 1, "a zygote without workers")
	c.fire()
	require.Empty(t, processes(t, r.user), "goes, too")
}

func TestTwoProgramsAtOnce(t *testing.T) {
	r := fake(t, python.Config{Slots: 2}, "one", "fresh")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := []string{"one", "fresh"}[i%2]
			for range 5 {
				_, err := ask(t.Context(), r, name, "ok", i)
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, processes(t, r.user), 9, "one zygote, and a worker for each slot")
	require.Equal(t, []string{"function fresh: it is not safe: each worker imports it anew, which takes longer than a fork"}, r.warned())
}

// Another version takes over; what runs of the old goes on.
func TestRegisterReplaces(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	old, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "other.py")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, r.Register(python.Program{Name: "any", Path: path, Version: "2"}))
	require.Empty(t, processes(t, r.user), "what was idle is gone")
	now, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	require.NotEqual(t, old.PID, now.PID)
	require.NoError(t, r.Register(python.Program{Name: "any", Path: path, Version: "2"}))
	same, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	require.Equal(t, now.PID, same.PID, "the same version changes nothing")
	require.ErrorContains(t, r.Register(python.Program{Name: "any", Path: "/nowhere.py"}), "name a .py file, or a folder with main.py")
}

func TestChildrenOfWorkersEndWithTheRuntime(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	child, err := ask(t.Context(), r, "any", "child", 0)
	require.NoError(t, err)
	require.True(t, running(child.PID))
	require.NoError(t, r.Close())
	eventually(t, time.Second, func() bool { return !running(child.PID) }, "the child is gone")
}

// pinned returns the cores that the workers of two slots run on.
func pinned(t *testing.T, r rig) (slots [2][]int) {
	t.Helper()
	for slot := range slots {
		s, err := ask(t.Context(), r, "any", "ok", slot)
		require.NoError(t, err)
		slots[slot] = s.CPUs
	}
	return slots
}

func TestCoresAreClaimed(t *testing.T) {
	slots := min(2, config.Cores())
	user := private(t)
	other := helper(t, "pin", user)

	c := &clock{}
	r := fake(t, python.Config{Slots: slots, Pin: true, UserDir: user, After: c.after}, "any")
	all := pinned(t, r)
	require.Equal(t, all[0], all[1], "another process has the cores: none is bound")

	other.kill(t)
	require.Equal(t, all, pinned(t, r), "while workers live nothing changes")
	c.fire()
	mine := pinned(t, r)
	require.Len(t, mine[0], config.Cores()/slots)
	if slots == 2 {
		require.NotEqual(t, mine[0], mine[1], "each slot has cores of its own")
	}

	loose := fakeBeside(t, python.Config{Slots: slots, UserDir: private(t)})
	require.Equal(t, all, pinned(t, loose), "nobody is bound who does not ask for it")
}

// fakeBeside is fake beside another rig: the checks at the end are left to that.
func fakeBeside(t *testing.T, c python.Config) rig {
	t.Helper()
	c.SDK = os.DirFS("testdata/fake")
	r := rig{record: &record{}, user: c.UserDir}
	c.Log, c.Warn = r.log, r.warn
	var err error
	r.Runtime, err = python.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	path := filepath.Join(t.TempDir(), "any.py")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, r.Register(python.Program{Name: "any", Path: path}))
	return r
}

// Nothing outlives the process of a runtime, however that ends and whatever its
// workers do.
func TestNothingOutlivesTheHost(t *testing.T) {
	for _, mode := range []string{"fork", "fresh"} {
		t.Run(mode, func(t *testing.T) {
			user := private(t)
			h := helper(t, mode, user)
			pids := processes(t, user)
			require.Len(t, pids, 4, "with what the program has started: a zygote and two workers, or two workers")
			h.kill(t)
			eventually(t, time.Second, func() bool { return len(processes(t, user)) == 0 }, "every Python process is gone")

			left := folders(t, user)
			require.Len(t, left, 1)
			r := fake(t, python.Config{UserDir: user}, "any")
			require.NoDirExists(t, left[0], "the next sweeps its folder")
			require.NoError(t, r.Close())
		})
	}
}

// host is another process that has a runtime.
type host struct{ cmd *exec.Cmd }

// helper starts one and waits until its workers run.
func helper(t *testing.T, mode, user string) host {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TROUPE_TEST_HOST="+mode, "TROUPE_TEST_USER="+user)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h := host{cmd}
	t.Cleanup(func() { h.kill(t) })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready", strings.TrimSpace(line))
	return h
}

func (h host) kill(t *testing.T) {
	t.Helper()
	if h.cmd.ProcessState == nil {
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGKILL))
		_ = h.cmd.Wait()
	}
}

// What a warm worker remembers may be why an attempt failed: the next one gets
// a fresh worker, whatever slot it runs on. One that is a further one for another
// reason, as its node has gone, ends no worker that is well.
func TestAttemptsThatAreToBeFreshGetFreshWorkers(t *testing.T) {
	r := fake(t, python.Config{Slots: 2}, "any")
	attempt := func(n, slot int, fresh bool) int {
		answer, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Infer, Function: "any", Slot: slot, Attempt: n, Fresh: fresh, Args: map[string]string{"do": "ok"}, Infer: json.RawMessage("[]"),
		})
		require.NoError(t, err)
		var s said
		require.NoError(t, json.Unmarshal(answer.Predictions, &s))
		return s.PID
	}
	warm := attempt(0, 1, false)
	require.Equal(t, warm, attempt(0, 1, false))
	require.Equal(t, warm, attempt(1, 1, false))
	fresh := attempt(1, 1, true)
	require.NotEqual(t, warm, fresh)
	require.Equal(t, fresh, attempt(0, 1, false), "which stays warm in turn")
	require.Len(t, processes(t, r.user), 2, "the zygote and one worker")
}
