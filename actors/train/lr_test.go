package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/train"
)

func TestRate(t *testing.T) {
	for name, c := range map[string]struct {
		scale        string
		n            uint32
		warmup, done float64
		want         float64
	}{
		"as it is":                        {"none", 8, 0, 0.5, 0.1},
		"linear in N":                     {"linear", 8, 0, 0.5, 0.8},
		"as the root of N":                {"sqrt", 4, 0, 0.5, 0.2},
		"a quarter of the warm-up":        {"none", 1, 2, 0.5, 0.025},
		"warm-up rises to what is scaled": {"linear", 4, 2, 1, 0.2},
		"after the warm-up":               {"none", 1, 2, 2, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			require.InDelta(t, c.want, train.Rate(0.1, c.scale, c.n, c.warmup, c.done), 1e-15)
		})
	}
}
