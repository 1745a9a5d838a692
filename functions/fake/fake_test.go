package fake_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// raiser lets one name more train the ledger, and raise.
type raiser struct{ well, ill *fake.Runtime }

func (r raiser) Has(function string) bool { return r.well.Has(function) || function == "raises" }
func (r raiser) Close() error             { return r.well.Close() }

func (r raiser) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	if inv.Function == "raises" {
		inv.Function = fake.Ledger
		return r.ill.Run(ctx, inv)
	}
	return r.well.Run(ctx, inv)
}

// wait is a Sleep in real time.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestFakeConforms(t *testing.T) {
	functionstest.Run(t, func(t *testing.T) functionstest.Subject {
		config := fake.Config{Seed: 1, Base: time.Microsecond, Jitter: 1, Sleep: wait}
		ill := config
		ill.Raise = 1
		return functionstest.Subject{
			Runtime:  raiser{fake.New(config), fake.New(ill)},
			Function: fake.Ledger, Raises: "raises", IgnoresData: true,
		}
	})
}

func invocation(positions ...int64) functions.Invocation {
	return functions.Invocation{
		Task: functions.Train, Function: fake.Ledger, JobID: "j", Incarnation: 1, Epoch: 1, N: 3,
		BatchSize: 2, Positions: positions, Data: functions.Data{Samples: 10},
	}
}

func start(t *testing.T, r *fake.Runtime, function string) []byte {
	t.Helper()
	var out functions.Buffer
	inv := invocation()
	inv.Task, inv.Function, inv.ModelOut = functions.Init, function, &out
	_, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	return out.Bytes()
}

func input(b []byte) functions.Input {
	return functions.Input{R: bytes.NewReader(b), Size: int64(len(b))}
}

func counts(t *testing.T, model []byte) []int64 {
	t.Helper()
	dict, err := tensor.Read(bytes.NewReader(model), int64(len(model)))
	require.NoError(t, err)
	c, err := fake.Counts(dict)
	require.NoError(t, err)
	return c
}

// Merged counts are the union of a round's answers, and add up over rounds.
func TestTheLedgerCountsWhatWasTrained(t *testing.T) {
	r := fake.New(fake.Config{})
	model := start(t, r, fake.Ledger)
	for _, round := range [][][]int64{{{3, 1}, {0, 9, 5}}, {{2, 4}, {6, 7, 8}}} {
		var answers []tensor.Answer
		for i, positions := range round {
			inv := invocation(positions...)
			inv.Model, inv.Index = input(model), i
			var out functions.Buffer
			inv.ModelOut = &out
			answer, err := r.Run(t.Context(), inv)
			require.NoError(t, err)
			in := out.Input()
			require.NoError(t, tensor.Check(tensor.Source{R: bytes.NewReader(model), Size: int64(len(model))}, tensor.Source{R: in.R, Size: in.Size}))
			answers = append(answers, tensor.Answer{Function: i, Weight: float64(answer.Samples), Source: tensor.Source{R: in.R, Size: in.Size}})
		}
		var merged bytes.Buffer
		require.NoError(t, tensor.Average(&merged, len(round), answers))
		model = merged.Bytes()
	}
	require.Equal(t, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, counts(t, model))
}

func TestTheOptimizerStateCountsBatches(t *testing.T) {
	r := fake.New(fake.Config{})
	inv := invocation(1, 2, 3)
	inv.Model = input(start(t, r, fake.Ledger))
	for want := int64(2); want <= 6; want += 2 {
		var out functions.Buffer
		inv.OptimizerOut = &out
		answer, err := r.Run(t.Context(), inv)
		require.NoError(t, err)
		require.True(t, answer.HasOptimizer)
		inv.Optimizer = out.Input()
		dict, err := functions.ReadDict(inv.Optimizer)
		require.NoError(t, err)
		require.Equal(t, []int64{want}, dict[0].Int64())
	}
}

func TestNoOpAnswersItsInput(t *testing.T) {
	r := fake.New(fake.Config{})
	model := start(t, r, fake.NoOp)
	inv := invocation(1, 2, 3)
	inv.Function, inv.Model = fake.NoOp, input(model)
	var out functions.Buffer
	inv.ModelOut = &out
	answer, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 3, Batches: 2}, answer)
	require.Equal(t, model, out.Bytes())
}

func TestGarbageDoesNotPassACheck(t *testing.T) {
	for name, config := range map[string]fake.Config{
		"NaN": {NaN: 1}, "shape": {WrongShape: 1}, "dtype": {WrongDType: 1}, "name": {WrongName: 1},
	} {
		for _, function := range []string{fake.Ledger, fake.NoOp} {
			r := fake.New(config)
			model := start(t, r, function)
			inv := invocation(1, 2, 3)
			inv.Function, inv.Model = function, input(model)
			var out functions.Buffer
			inv.ModelOut = &out
			_, err := r.Run(t.Context(), inv)
			require.NoError(t, err)
			in := out.Input()
			err = tensor.Check(tensor.Source{R: bytes.NewReader(model), Size: int64(len(model))}, tensor.Source{R: in.R, Size: in.Size})
			require.Equal(t, fault.Rejected, fault.KindOf(err), "%s: %v", name, err)
		}
	}
	r := fake.New(fake.Config{FewSamples: 1})
	inv := invocation(1, 2, 3)
	inv.Model = input(start(t, r, fake.Ledger))
	answer, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	require.EqualValues(t, 2, answer.Samples)
}

// Misfortune strikes as often as was asked, depends on what names the attempt,
// and on nothing else.
func TestPlanIsPureAndKeepsItsRates(t *testing.T) {
	config := fake.Config{Seed: 5, Base: time.Second, PerSample: time.Millisecond, Jitter: 0.5, Crash: 0.2, Hang: 0.1, Raise: 0.1, NaN: 0.1, FewSamples: 0.1}
	const draws = 5000
	var crash, hang, raise, nan, few int
	for attempt := range draws {
		inv := invocation(1, 2)
		inv.Attempt = attempt
		plan := config.Plan(inv)
		require.GreaterOrEqual(t, plan.Took, 1002*time.Millisecond)
		require.Less(t, plan.Took, 1503*time.Millisecond)
		elsewhere := inv
		elsewhere.Slot, elsewhere.Seed = 3, 4
		require.Equal(t, plan, config.Plan(elsewhere))
		n := 0
		for _, c := range []struct {
			hit   bool
			count *int
		}{{plan.Crash, &crash}, {plan.Hang, &hang}, {plan.Raise, &raise}, {plan.Garbage == fake.NaN, &nan}, {plan.Garbage == fake.FewSamples, &few}} {
			if c.hit {
				*c.count++
				n++
			}
		}
		require.LessOrEqual(t, n, 1, "one misfortune at most")
	}
	for got, want := range map[*int]float64{&crash: 0.2, &hang: 0.1, &raise: 0.1, &nan: 0.1, &few: 0.1} {
		require.InDelta(t, want, float64(*got)/draws, 0.03) // 5 deviations of sqrt(p(1-p)/draws)
	}
	for _, change := range []func(*functions.Invocation){
		func(inv *functions.Invocation) { inv.JobID = "k" },
		func(inv *functions.Invocation) { inv.Epoch++ },
		func(inv *functions.Invocation) { inv.Round++ },
		func(inv *functions.Invocation) { inv.Index++ },
		func(inv *functions.Invocation) { inv.Attempt++ },
	} {
		inv := invocation(1, 2)
		changed := inv
		change(&changed)
		require.NotEqual(t, config.Plan(inv).Took, config.Plan(changed).Took)
	}
}

// A script has the last word, and sees what was drawn.
func TestAScriptDecidesWhatHappens(t *testing.T) {
	config := fake.Config{Crash: 1, Script: func(inv functions.Invocation, drawn fake.Behaviour) fake.Behaviour {
		drawn.Crash = drawn.Crash && inv.Attempt == 0
		return drawn
	}}
	inv := invocation(1, 2)
	require.True(t, config.Plan(inv).Crash)
	inv.Attempt = 1
	require.False(t, config.Plan(inv).Crash)
}

func BenchmarkNoOp(b *testing.B) {
	r := fake.New(fake.Config{})
	var out functions.Buffer
	inv := invocation()
	inv.Task, inv.Function, inv.ModelOut = functions.Init, fake.NoOp, &out
	_, err := r.Run(b.Context(), inv)
	require.NoError(b, err)
	inv = invocation(1, 2, 3)
	inv.Function, inv.Model = fake.NoOp, out.Input()
	for b.Loop() {
		var answer functions.Buffer
		inv.ModelOut = &answer
		_, _ = r.Run(b.Context(), inv)
	}
}
