package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestThroughputFollowsKubeMLsRule(t *testing.T) {
	policy, err := scheduler.NewPolicy("throughput")
	require.NoError(t, err)
	require.Equal(t, "throughput", policy.Name())
	for name, c := range map[string]struct {
		n       uint32    // of every epoch
		seconds []float64 // of epochs of 100 samples
		want    float64
	}{
		"one more after the first epoch":               {4, []float64{10}, 5},
		"one more when faster":                         {5, []float64{10, 8}, 6},
		"one more at 1.05 times the reference":         {5, []float64{100, 105}, 6},
		"no change between the thresholds":             {5, []float64{10, 11}, 5},
		"one less at 1.2 times the reference":          {5, []float64{10, 12}, 4},
		"no change leaves the reference":               {5, []float64{10, 11, 11.9}, 5},
		"and so slow drift is noticed in the end":      {5, []float64{10, 11, 11.9, 12.5}, 4},
		"one more makes a reference":                   {5, []float64{10, 10.5, 11}, 6},
		"one less makes a reference":                   {5, []float64{10, 20, 20.5}, 6},
		"one function is the least it asks for":        {1, []float64{10, 20}, 1},
		"it is the last epoch's N that changes by one": {65536, []float64{10}, 65537},
	} {
		t.Run(name, func(t *testing.T) {
			var past []scheduler.Measurement
			for _, s := range c.seconds {
				past = append(past, scheduler.Measurement{Parallelism: c.n, Seconds: s, Samples: 100})
			}
			require.InDelta(t, c.want, policy.Parallelism(past), 0)
		})
	}
}

func TestThroughputReckonsPerSample(t *testing.T) {
	policy, err := scheduler.NewPolicy("throughput")
	require.NoError(t, err)
	past := []scheduler.Measurement{
		{Parallelism: 2, Seconds: 10, Samples: 1000},
		{Parallelism: 3, Seconds: 15, Samples: 1500}, // longer, yet as fast
	}
	require.InDelta(t, 4, policy.Parallelism(past), 0)
}

func TestStaticKeepsN(t *testing.T) {
	policy, err := scheduler.NewPolicy("static")
	require.NoError(t, err)
	require.Equal(t, "static", policy.Name())
	require.InDelta(t, 7, policy.Parallelism([]scheduler.Measurement{
		{Parallelism: 3, Seconds: 1, Samples: 1}, {Parallelism: 7, Seconds: 99, Samples: 1},
	}), 0)
}

func TestUnknownPolicyErrorListsWhatExists(t *testing.T) {
	_, err := scheduler.NewPolicy("clever")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `"clever"`)
	require.ErrorContains(t, err, "static, throughput")
}
