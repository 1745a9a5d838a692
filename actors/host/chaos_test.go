package host_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
)

func chaotic(plan *messages.ChaosPlan, round, function, attempt uint32) *messages.Invoke {
	return &messages.Invoke{Attempt: ref("j", round, function, attempt), Plan: &messages.RoundPlan{Chaos: plan}}
}

// The draws of a seed are a promise: golden values. Those of kill, hang, nan and
// slow are older than the rest, which are drawn after them.
func TestChaosDrawsTheSameForEver(t *testing.T) {
	type old struct {
		Kill, Hang bool
		Slow       time.Duration
		NaN        bool
		At         float64
	}
	plan := &messages.ChaosPlan{Kill: 0.2, Hang: 0.2, Nan: 0.2, Slow: 0.3, Seed: 7}
	golden(t, "testdata/chaos.json", plan, func(s functions.Sabotage) any { return old{s.Kill, s.Hang, s.Slow, s.NaN, s.At} })
	plan = &messages.ChaosPlan{Kill: 0.1, Slow: 0.1, Freeze: 0.3, Corrupt: 0.4, DiskFull: 0.5, Seed: 7}
	golden(t, "testdata/chaos-more.json", plan, func(s functions.Sabotage) any { return s })
}

func golden(t *testing.T, golden string, plan *messages.ChaosPlan, show func(functions.Sabotage) any) {
	t.Helper()
	got := map[string]any{}
	for round := range uint32(2) {
		for function := range uint32(4) {
			for attempt := range uint32(2) {
				inv := chaotic(plan, round+1, function, attempt+1)
				got[nameOf(inv.GetAttempt())] = show(host.Chaos(inv))
			}
		}
	}
	text, err := json.MarshalIndent(got, "", "\t")
	require.NoError(t, err)
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, append(text, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text)+"\n")
}

// Each way of breaking happens to its share of the attempts, whatever else does.
func TestChaosKeepsItsShares(t *testing.T) {
	plan := &messages.ChaosPlan{Kill: 0.1, Hang: 0.2, Nan: 0.3, Slow: 0.4, Freeze: 0.3, Corrupt: 0.2, DiskFull: 0.6, Seed: 42}
	const n = 20_000
	var kill, hang, nan, slow, at, freeze, corrupt, full float64
	for i := range uint32(n) {
		s := host.Chaos(chaotic(plan, i/100, i%100, 1))
		require.LessOrEqual(t, count(s.Kill)+count(s.Hang)+count(s.NaN)+count(s.Freeze)+count(s.Corrupt)+count(s.DiskFull), 1.0)
		require.True(t, s.At >= 0 && s.At < 1)
		kill += count(s.Kill)
		hang += count(s.Hang)
		nan += count(s.NaN)
		slow += count(s.Slow > 0)
		at += s.At
		freeze += count(s.Freeze)
		corrupt += count(s.Corrupt)
		full += count(s.DiskFull)
		if s.Slow > 0 {
			require.GreaterOrEqual(t, s.Slow, 50*time.Millisecond)
			require.Less(t, s.Slow, 500*time.Millisecond)
		}
	}
	for _, c := range []struct{ got, want float64 }{
		{kill, 0.1},
		{hang, 0.9 * 0.2},
		{nan, 0.9 * 0.8 * 0.3},
		{slow, 0.4},
		{freeze, 0.9 * 0.8 * 0.7 * 0.3},
		{corrupt, 0.9 * 0.8 * 0.7 * 0.7 * 0.2},
		{full, 0.9 * 0.8 * 0.7 * 0.7 * 0.8 * 0.6},
	} {
		sigma := math.Sqrt(c.want * (1 - c.want) / n)
		require.InDelta(t, c.want, c.got/n, 5*sigma)
	}
	require.InDelta(t, 0.5, at/n, 5/math.Sqrt(12*n))
}

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestChaosDependsOnNothingElse(t *testing.T) {
	plan := &messages.ChaosPlan{Kill: 0.3, Slow: 0.5, Seed: 1}
	raised := &messages.ChaosPlan{Kill: 0.3, Slow: 0.5, Nan: 1, Seed: 1}
	differ := 0
	for function := range uint32(100) {
		inv := chaotic(plan, 1, function, 1)
		want := host.Chaos(inv)

		other := chaotic(plan, 1, function, 1)
		other.Attempt.Job = &messages.JobRef{Id: "other", Incarnation: 9}
		other.Node, other.Seed = "elsewhere", 77
		require.Equal(t, want, host.Chaos(other))

		more := host.Chaos(chaotic(raised, 1, function, 1))
		require.Equal(t, !want.Kill, more.NaN)
		more.NaN = false
		require.Equal(t, want, more, "one share leaves the other draws alone")

		if host.Chaos(chaotic(plan, 1, function, 2)).Kill != want.Kill {
			differ++
		}
		validation := chaotic(plan, 1, function, 1)
		validation.Attempt.Task = messages.Task_TASK_VALIDATE
		require.Zero(t, host.Chaos(validation))
		require.Zero(t, host.Chaos(chaotic(nil, 1, function, 1)))
	}
	require.Greater(t, differ, 20, "a retry draws anew")
}

func TestAFailureIsBlamedOnChaosWhereItMayBe(t *testing.T) {
	for name, c := range map[string]struct {
		sabotage functions.Sabotage
		timedOut bool
		want     bool
	}{
		"nothing was done":           {functions.Sabotage{At: 0.5}, true, false},
		"killed":                     {functions.Sabotage{Kill: true}, false, true},
		"hung until the time-out":    {functions.Sabotage{Hang: true}, true, true},
		"NaN":                        {functions.Sabotage{NaN: true}, false, true},
		"frozen":                     {functions.Sabotage{Freeze: true}, true, true},
		"damaged":                    {functions.Sabotage{Corrupt: true}, false, true},
		"no room":                    {functions.Sabotage{DiskFull: true}, false, true},
		"slow, and failed":           {functions.Sabotage{Slow: time.Second}, false, false},
		"slow, and not done in time": {functions.Sabotage{Slow: time.Second}, true, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, host.Blames(c.sabotage, c.timedOut)) })
	}
}
