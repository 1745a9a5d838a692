package python_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Whatever a worker does is a failure of that attempt only.
func TestWorkersThatMisbehave(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	for name, c := range map[string]struct {
		do   string
		kind fault.Kind
		says string
	}{
		"sends what is no JSON":                {"garbage", fault.Unavailable, `cannot be understood: it sent what is no message`},
		"announces an endless frame":           {"long", fault.Unavailable, "frame of 4294967295 bytes"},
		"closes half-way through a frame":      {"half", fault.Unavailable, "closed its connection"},
		"sends a message without content":      {"nothing", fault.Unavailable, "a message that says nothing"},
		"ends by itself":                       {"exit", fault.Unavailable, "ended with exit status 3"},
		"crashes":                              {"segv", fault.Unavailable, "was killed by signal 11 (SIGSEGV)"},
		"is killed":                            {"kill", fault.Unavailable, "was killed by signal 9 (SIGKILL), as the system does when memory runs out"},
		"dies, its connections held by others": {"heir", fault.Unavailable, "was killed by signal 15 (SIGTERM)"},
		"runs out of memory":                   {"memory", fault.Unavailable, "no memory: fewer --slots"},
		"has a bug of ours":                    {"internal", fault.Unavailable, "ours\nT"},
		"refuses the request":                  {"warn", fault.Invalid, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ask(t.Context(), r, "any", c.do, 0)
			require.Equal(t, c.kind, fault.KindOf(err), err)
			require.ErrorContains(t, err, c.says)
			_, err = ask(t.Context(), r, "any", "ok", 0)
			require.NoError(t, err)
		})
	}
	_, err := ask(t.Context(), r, "any", "warn", 0)
	require.Error(t, err)
	require.Equal(t, []string{"function any: careful"}, r.warned(), "once")
}

func TestWorkersThatNeverAnswer(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	_, err := ask(t.Context(), r, "any", "ok", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = ask(ctx, r, "any", "silent", 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Outputs that are not what was announced are failures too.
func TestOutputsThatAreWrong(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	for do, says := range map[string]string{
		"nomodel":  "gave no model",
		"twice":    "asked for its outputs twice",
		"negative": "asked for less than no bytes",
		"short":    "wrote 99 bytes where it had asked for 100",
	} {
		t.Run(do, func(t *testing.T) {
			var model functions.Buffer
			_, err := r.Run(t.Context(), functions.Invocation{
				Task: functions.Init, Function: "any", Args: map[string]string{"do": do}, ModelOut: &model,
			})
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
			require.ErrorContains(t, err, says)
		})
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	answer, err := r.Run(t.Context(), functions.Invocation{
		Task: functions.Val, Function: "any", Args: map[string]string{"do": "nan"}, BatchSize: 1, Positions: []int64{0}, Data: functions.Data{Samples: 1},
	})
	require.NoError(t, err)
	require.True(t, math.IsNaN(answer.Loss))
	require.True(t, math.IsNaN(answer.Correct))
	require.True(t, math.IsInf(answer.Metrics["m"].Sum, 1))
}

func TestZygotesThatMisbehave(t *testing.T) {
	for program, c := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"exit":      {fault.Unavailable, "ended with exit status 5 before it was ready: last words"},
		"raises":    {fault.UserCode, "raised ValueError at import: no"},
		"babble":    {fault.Unavailable, "cannot be understood"},
		"hangup":    {fault.Unavailable, "closed its connection"},
		"empty":     {fault.Unavailable, "neither that it is ready nor why not"},
		"nofork":    {fault.Unavailable, "the process that forks workers ended"},
		"stillborn": {fault.Unavailable, "ended with exit status 7 before it was ready"},
	} {
		t.Run(program, func(t *testing.T) {
			r := fake(t, python.Config{Slots: 1}, program)
			for range 2 {
				_, err := ask(t.Context(), r, program, "ok", 0)
				require.Equal(t, c.kind, fault.KindOf(err), err)
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}

func TestCloseCutsWhatRuns(t *testing.T) {
	for _, program := range []string{"any", "mute"} { // one that runs, one that is imported for ever
		r := fake(t, python.Config{Slots: 1}, program)
		end := make(chan error, 1)
		go func() {
			_, err := ask(context.Background(), r, program, "silent", 0)
			end <- err
		}()
		eventually(t, 10*time.Second, func() bool { return len(processes(t, r.user)) > 0 }, "a process of "+program)
		require.NoError(t, r.Close())
		err := <-end
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "is closed")
	}
}

func TestWhatIsPrinted(t *testing.T) {
	r := fake(t, python.Config{Slots: 1}, "any")
	_, err := r.Run(t.Context(), functions.Invocation{
		Task: functions.Infer, Function: "any", JobID: "job", Index: 3, Args: map[string]string{"do": "print"}, Infer: json.RawMessage("1"),
	})
	require.NoError(t, err)
	line := func(index int, text string) python.Line {
		return python.Line{JobID: "job", Function: "any", Index: index, Text: text}
	}
	long := strings.Repeat("x", 70000)
	require.Equal(t, []python.Line{
		line(-1, "imported"), line(3, "one"), line(3, "two"), line(3, "bad \uFFFD byte"), line(3, long[:65536]), line(3, long[65536:]),
	}, r.all())
	require.NoError(t, r.Close())
	all := r.all()
	require.Equal(t, line(3, "no end"), all[len(all)-1])
}

// What a worker is told, over a Space that has no files.
func TestRequest(t *testing.T) {
	r := fake(t, python.Config{Slots: 2, Threads: 3, MemoryLimit: 1 << 40}, "any")
	got, err := ask(t.Context(), r, "any", "ok", 1)
	require.NoError(t, err)
	require.Equal(t, 1, got.Slot)
	require.Equal(t, 3, got.Threads)
	require.EqualValues(t, 1<<40, got.Memory)
	require.Equal(t, got.PID, got.Group, "it leads a group")
	require.Equal(t, "infer", got.Request["task"])
	require.Equal(t, []any{}, got.Request["data"])
	require.Nil(t, got.Request["model"])

	positions := functionstest.Range(1001)
	answer, err := r.Run(t.Context(), functions.Invocation{
		Task: functions.Train, Function: "any", BatchSize: 1, Positions: positions, Data: functions.Data{Name: "digits", Samples: 2000},
		Seed: math.MaxUint64, Epoch: 4, Round: 5, Index: 6, Attempt: 7, N: 8, K: 9, LR: 0.5, Slot: 1,
		Model: functions.Input{R: strings.NewReader("model"), Size: 5}, Sabotage: functions.Sabotage{Slow: time.Second, At: 0.5},
	})
	require.NoError(t, err)
	var told struct{ Request map[string]any }
	decoder := json.NewDecoder(strings.NewReader(string(answer.Predictions)))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&told))
	for k, v := range map[string]string{"seed": "18446744073709551615", "epoch": "4", "round": "5", "index": "6", "attempt": "7", "n": "8", "k": "9", "lr": "0.5"} {
		require.Equal(t, json.Number(v), told.Request[k], k)
	}
	require.NotEmpty(t, told.Request["positions_file"])
	require.NoFileExists(t, told.Request["positions_file"].(string), "temporary files go with the call")
	require.NoFileExists(t, told.Request["model"].(string))
	require.Equal(t, map[string]any{
		"kill_at_batch": json.Number("-1"), "hang_at_batch": json.Number("-1"), "slow_at_batch": json.Number("500"), "slow_s": json.Number("1"),
	}, told.Request["sabotage"])

	_, err = r.Run(t.Context(), functions.Invocation{Task: functions.Infer, Function: "any", Infer: json.RawMessage(`"` + strings.Repeat("x", 17<<20) + `"`)})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "longer than 16777216")
}
