package python_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
)

// What is cut while it is imported says where it was, in the program's log.
func TestTheStackOfAnImport(t *testing.T) {
	r := open(t, python.Config{Slots: 1}, "sleeps")
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, functions.Invocation{Task: functions.Infer, Function: "sleeps", JobID: "job", Index: 2, Infer: json.RawMessage("1")})
		end <- err
	}()
	heard(t, r, "importing")
	cut := time.Now()
	cancel(context.DeadlineExceeded)
	require.ErrorIs(t, <-end, context.Canceled)
	require.Less(t, time.Since(cut), time.Second)
	lines := r.all()
	for _, l := range lines {
		require.Equal(t, []any{"job", -1}, []any{l.JobID, l.Index})
	}
	require.Equal(t, []string{
		"importing", "Main thread (most recent call first):", `  File "sleeps.py", line 7 in forever`, `  File "sleeps.py", line 10 in <module>`,
	}, texts(lines))
}

// texts are those of lines, without the numbers of threads.
func texts(lines []python.Line) (all []string) {
	for _, l := range lines {
		if i, j := strings.Index(l.Text, " 0x"), strings.Index(l.Text, " (most"); i > 0 && j > i {
			l.Text = l.Text[:i] + l.Text[j:]
		}
		all = append(all, l.Text)
	}
	return all
}

// However much a function prints, its stack comes, and comes last.
func TestTheStackOfOneThatPrintsWithoutEnd(t *testing.T) {
	r := open(t, python.Config{Slots: 1}, "behaves")
	s := start(t, r, with(training(t, r, "behaves"), "do", "print_on"))
	s.cancel(context.DeadlineExceeded)
	require.ErrorIs(t, <-s.end, context.Canceled)
	all := texts(r.all())
	require.Regexp(t, `call first\):\n  File "behaves\.py", line \d+ in print_on\n  File "behaves\.py", line \d+ in train\n  File "behaves\.py", line \d+ in main$`,
		strings.Join(all[len(all)-4:], "\n"))
}

// A frame is the user's, a library's, the SDK's or Python's own.
func TestStacksAreOfTheUser(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.py"), nil, 0o600))
	trimmed := func(text string) []string { return python.TrimStack(strings.ReplaceAll(text, "DIR", dir), "/sdk", dir) }
	const helpers = `Thread 0x1 (most recent call first):
  File "/sdk/troupe/process.py", line 3 in _watch
  File "/usr/lib/python3.11/threading.py", line 9 in run

Thread 0x2 (most recent call first):
  File "/opt/py/lib/python3.11/threading.py", line 9 in run

Thread 0x3 (most recent call first):
  <no Python frame>

Thread 0x4 [pin] (most recent call first):
  File "DIR/.venv/lib/python3/site-packages/torch/pin.py", line 8 in loop
  File "/usr/lib/python3.11/threading.py", line 9 in run

`
	require.Equal(t, []string{
		"Main thread (most recent call first):", `  File "/usr/lib/python3/dist-packages/torch/f.py", line 2 in relu`, `  File "parts/net.py", line 5 in f`,
		"Thread 0x5 [mine] (most recent call first):", `  File "/usr/lib/python3.11/queue.py", line 4 in get`, `  File "/home/me/lib.py", line 1 in g`,
	}, trimmed(helpers+`Thread 0x5 [mine] (most recent call first):
  File "/usr/lib/python3.11/queue.py", line 4 in get
  File "/home/me/lib.py", line 1 in g
  File "/usr/lib/python3.11/threading.py", line 9 in run

Current thread 0x6 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/f.py", line 2 in relu
  File "/sdk/troupe/model.py", line 4 in parameters
  File "DIR/parts/net.py", line 5 in f
  File "/sdk/troupe/task.py", line 6 in run
  File "<frozen runpy>", line 7 in run
  File "<string>", line 8 in <module>
`))
	const ours = "  File \"/sdk/troupe/worker.py\", line 1 in f\n"
	require.Equal(t, []string{"Main thread (most recent call first):", strings.TrimSuffix(ours, "\n")},
		trimmed(helpers+"Current thread 0x6 (most recent call first):\n"+ours), "better than nothing")
	require.Equal(t, []string{"garbage"}, trimmed("garbage\n"))
}

// However many threads there are, the main thread is shown whole, and first.
func TestALongStackLosesOtherThreads(t *testing.T) {
	frames := strings.Repeat("  File \"/p/net.py\", line 1 in f\n", 100) + "  ...\n"
	text := strings.Repeat("Thread 0x1 (most recent call first):\n"+frames+"\n", 99) + "Current thread 0x2 (most recent call first):\n" + frames
	lines := python.TrimStack(text, "/sdk", "/p/net.py")
	require.Equal(t, []string{"Main thread (most recent call first):", `  File "net.py", line 1 in f`}, lines[:2])
	require.Equal(t, "  ...", lines[101])
	require.Regexp(t, `^\(and \d\d more\)$`, lines[len(lines)-1])
	require.Less(t, len(strings.Join(lines, "\n")), 80<<10)
}

// Stacks tells where each function is in the user's code, whatever it does.
func TestStacksOfWorkers(t *testing.T) {
	r := open(t, python.Config{Slots: 1}, "behaves")
	inv := training(t, r, "behaves")
	const main, behaves = `Main thread \(most recent call first\):\n`, `  File "behaves\.py", line \d+ in `
	hangs, trains := behaves+`where_it_hangs\n`, behaves+`train\n`+behaves+`main$`
	for what, stack := range map[string]string{
		"hang":     "^" + main + hangs + behaves + `hang\n` + trains,
		"multiply": "^" + main + behaves + `multiplies\n` + behaves + `multiply\n` + trains,
		"nested":   "^" + main + hangs + `(` + behaves + `deeper\n){99}  \.\.\.$`,
		"threads": "^" + main + hangs + behaves + `threads\n` + behaves + `train\n` + behaves + `main` +
			`(\nThread 0x\w+ .*\n` + strings.TrimSuffix(hangs, `\n`) + `(\n` + behaves + `deeper)+){3}$`,
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t, r, with(inv, "do", what))
			eventually(t, time.Minute, func() bool { return regexp.MustCompile(stack).MatchString(r.Stacks("job")[0]) }, stack)
			require.Empty(t, r.Stacks("another"))
			require.NoError(t, syscall.Kill(s.pid, syscall.SIGSTOP))
			eventually(t, time.Minute, func() bool { return state(s.pid) == "T" }, "the process is stopped")
			asked := time.Now()
			require.Regexp(t, `^process \d+ is stopped .*SIGSTOP.*-CONT`, r.Stacks("job")[0])
			require.Less(t, time.Since(asked), time.Second)
			s.cancel(nil)
			require.ErrorIs(t, <-s.end, context.Canceled)
		})
	}
}

// A zygote that is stopped holds up nobody for long: the attempt whose time it
// takes kills it, and one with time waits only so long.
func TestAFrozenZygoteIsReplaced(t *testing.T) {
	r := fake(t, python.Config{Slots: 3}, "any")
	freeze := func(slot int) (zygote int) {
		s, err := ask(t.Context(), r, "any", "ok", slot)
		require.NoError(t, err)
		zygote = parent(t, s.PID)
		require.NoError(t, syscall.Kill(zygote, syscall.SIGSTOP))
		return zygote
	}
	frozen := freeze(0)
	eventually(t, time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _ = ask(ctx, r, "any", "ok", 1) // out of time, or served by the next zygote
		return !running(frozen)
	}, "the end of the zygote")

	frozen = freeze(1)
	_, err := ask(t.Context(), r, "any", "ok", 2)
	require.NoError(t, err)
	require.False(t, running(frozen))
}

// A warning of a program is given once in each job.
func TestAWarningComesOnceAJob(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	for _, job := range []string{"one", "two", "one", "two"} {
		_, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Infer, Function: "any", JobID: job, Args: map[string]string{"do": "warn"}, Infer: json.RawMessage("1"),
		})
		require.Error(t, err)
	}
	require.Equal(t, []string{"function any: careful", "function any: careful"}, r.warned())

	var told []string // to who asked for the run, and to nobody else
	_, err := r.Run(t.Context(), functions.Invocation{
		Task: functions.Infer, Function: "any", JobID: "three", Args: map[string]string{"do": "warn"}, Infer: json.RawMessage("1"),
		Warn: func(text string) { told = append(told, text) },
	})
	require.Error(t, err)
	require.Equal(t, []string{"function any: careful"}, told)
	require.Len(t, r.warned(), 2)
}
