package python_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
)

// started is an invocation that runs.
type started struct {
	pid    int // of its worker
	cancel context.CancelCauseFunc
	end    chan error
}

// start runs inv and waits until its worker is in the second batch.
func start(t *testing.T, r rig, inv functions.Invocation) started {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := started{cancel: cancel, end: make(chan error, 1)}
	before := len(r.all())
	go func() {
		_, err := r.Run(ctx, inv)
		s.end <- err
	}()
	t.Cleanup(func() { cancel(nil) })
	eventually(t, 30*time.Second, func() bool {
		for _, l := range r.all()[before:] {
			if len(l.Text) > 5 && l.Text[:5] == "here " {
				s.pid, _ = strconv.Atoi(l.Text[5:])
				return l.Index == inv.Index && l.JobID == inv.JobID && l.Function == inv.Function
			}
		}
		return false
	}, "the worker says where it is, in its own name")
	return s
}

// Real programs, real signals. One zygote serves all parts.
func TestWorkersThatBreak(t *testing.T) {
	r := open(t, python.Config{Slots: 2}, "behaves")
	inv := training(t, r, "behaves")
	inv.Index = 1

	t.Run("a worker that is killed mid-batch is a failure, and is replaced", func(t *testing.T) {
		s := start(t, r, with(inv, "do", "hang"))
		require.NoError(t, syscall.Kill(s.pid, syscall.SIGKILL))
		err := <-s.end
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "was killed by signal 9 (SIGKILL), as the system does when memory runs out")
		_, err = r.Run(t.Context(), inv)
		require.NoError(t, err)
	})

	t.Run("a stopped worker is cut when its context ends", func(t *testing.T) {
		s := start(t, r, with(inv, "do", "hang"))
		require.NoError(t, syscall.Kill(s.pid, syscall.SIGSTOP))
		cut := time.Now()
		s.cancel(context.DeadlineExceeded)
		require.ErrorIs(t, <-s.end, context.Canceled)
		require.Less(t, time.Since(cut), time.Second)
		require.False(t, running(s.pid))
	})

	t.Run("a function that is out of time leaves its stack in the log", func(t *testing.T) {
		for _, do := range []string{"hang", "spin"} {
			s := start(t, r, with(inv, "do", do))
			before := len(r.all())
			cut := time.Now()
			s.cancel(context.DeadlineExceeded)
			require.ErrorIs(t, <-s.end, context.Canceled)
			require.Less(t, time.Since(cut), time.Second)
			stack := ""
			for _, l := range r.all()[before:] {
				require.Equal(t, 1, l.Index)
				stack += l.Text + "\n"
			}
			require.Contains(t, stack, "behaves.py")
			require.Contains(t, stack, " in "+do)
		}
	})

	t.Run("a call that is not wanted any more leaves none", func(t *testing.T) {
		s := start(t, r, with(inv, "do", "hang"))
		before := len(r.all())
		s.cancel(nil)
		require.ErrorIs(t, <-s.end, context.Canceled)
		require.Len(t, r.all(), before)
	})

	t.Run("what a worker started ends with it", func(t *testing.T) {
		s := start(t, r, with(inv, "do", "offspring"))
		pid, err := strconv.Atoi(heard(t, r, "child "))
		require.NoError(t, err)
		s.cancel(nil)
		<-s.end
		eventually(t, time.Second, func() bool { return !running(pid) }, "the child of the worker is gone")
	})

	t.Run("a zygote that is killed is replaced, and its workers go on", func(t *testing.T) {
		until := filepath.Join(t.TempDir(), "go-on")
		waiting := with(inv, "do", "wait")
		waiting.Args["until"] = until
		s := start(t, r, waiting)
		zygote := parent(t, s.pid)
		require.NoError(t, syscall.Kill(zygote, syscall.SIGKILL))
		eventually(t, time.Second, func() bool { return !running(zygote) }, "the zygote is gone")

		other := inv
		other.Slot, other.Index = 1, 0
		_, err := r.Run(t.Context(), other)
		require.NoError(t, err, "another worker is forked by another zygote")
		require.NoError(t, os.WriteFile(until, nil, 0o600))
		require.NoError(t, <-s.end, "the one that ran went on")

		orphan := start(t, r, with(inv, "do", "hang"))
		require.Equal(t, s.pid, orphan.pid, "and stays warm")
		require.NoError(t, syscall.Kill(orphan.pid, syscall.SIGKILL))
		require.ErrorContains(t, <-orphan.end, "ended, nobody saw how")
	})

	t.Run("the environment of an invocation reaches the program", func(t *testing.T) {
		coloured := with(inv, "do", "environment")
		coloured.Env = map[string]string{"COLOUR": "red", "SHAPE": "round"}
		_, err := r.Run(t.Context(), coloured)
		require.NoError(t, err)
		require.Equal(t, "red round", heard(t, r, "env "))
	})
}

func TestMemoryLimit(t *testing.T) {
	r := open(t, python.Config{Slots: 1, MemoryLimit: 4 << 30}, "behaves")
	inv := training(t, r, "behaves")
	_, err := r.Run(t.Context(), with(inv, "do", "memory"))
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, "--memory-limit")
	_, err = r.Run(t.Context(), inv)
	require.NoError(t, err)
}
