package native

import (
	"math"

	"github.com/troupe-ml/troupe/functions"
)

// maxClasses bounds what a wrong label can make us allocate.
const maxClasses = 1 << 20

func (c *Call) training() bool { return c.Task == functions.Train }

// initInput adds input.mean and input.scale to the model: mean and 1/deviation
// of each feature over all training rows (scale 1 for one that never changes).
// It returns the number of classes, the highest label + 1.
func initInput(c *Call) (classes int64, err error) {
	features := int64(c.Rows.Features)
	mean, err := c.Model.Float32("input.mean", features)
	if err != nil {
		return 0, err
	}
	scale, err := c.Model.Float32("input.scale", features)
	if err != nil {
		return 0, err
	}
	// Welford's algorithm, in float64, in the order of the rows.
	mu, m2 := make([]float64, features), make([]float64, features)
	rows := max(1, window/(4*c.Rows.Features))
	var count float64
	for b, err := range c.Rows.All(rows) {
		if err != nil {
			return 0, err
		}
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		for i, y := range b.Y {
			if y < 0 || y >= maxClasses {
				return 0, NewInvalid("label %d of training row %d is not in [0, %d): label the classes 0, 1, 2, …", y, b.Positions[i], maxClasses)
			}
			classes = max(classes, y+1)
			count++
			for j, x := range b.Row(i) {
				delta := float64(x) - mu[j]
				mu[j] += delta / count
				m2[j] += delta * (float64(x) - mu[j])
			}
		}
	}
	for j := range mu {
		deviation := math.Sqrt(m2[j] / count)
		if math.IsNaN(deviation) || math.IsInf(deviation, 0) {
			return 0, NewInvalid("feature %d of x holds values that are not finite: clean the training data", j)
		}
		mean[j], scale[j] = float32(mu[j]), 1
		if s := float32(1 / deviation); deviation > 0 && !math.IsInf(float64(s), 0) {
			scale[j] = s
		}
	}
	return classes, nil
}
