// Package gofunction shows how a Go program brings a training function of its
// own: a nearest-centroid classifier, in one file.
//
// The runtime reads rows, cuts batches, keeps weights and optimizer state, and
// stops, breaks and repeats invocations; this file only says what a model is,
// what a batch does to it, and how to judge it. Merging then averages the
// centroids of all functions, weighted by the samples each has seen.
package gofunction

import (
	"github.com/troupe-ml/troupe/functions/native"
)

// Register returns a runtime that knows centroids beside the built-in
// functions.
func Register() (*native.Runtime, error) { return native.New(Centroids()) }

// Centroids keeps one point per class, the centroid [classes, features] F32,
// and moves it towards each sample of the class. The optimizer state counts
// the samples of each class: the first ones place the centroid, the later ones
// move it by the learning rate.
func Centroids() native.Function {
	return native.Function{
		Name: "centroids",
		Args: []native.Arg{native.Number("step", 0, 0, 1, "least step towards a sample; 0 = the learning rate")},
		Init: initCentroids,
		Open: openCentroids,
	}
}

// initCentroids names the model's one tensor. Its elements are zero to begin
// with, and may stay so.
func initCentroids(c *native.Call) error {
	classes := int64(1)
	for batch, err := range c.Rows.All(4096) {
		if err != nil {
			return err
		}
		for i, label := range batch.Y {
			if label < 0 || label > 10_000 {
				return native.NewInvalid("label %d of row %d: label the classes 0, 1, 2, …", label, batch.Positions[i])
			}
			classes = max(classes, label+1)
		}
	}
	_, err := c.Model.Float32("centroid", classes, int64(c.Rows.Features))
	return err
}

// centroids is the function at work: slices of the model and of the optimizer
// state. What is written into them is what the invocation gives back.
type centroids struct {
	features int
	at       []float32 // [classes, features]
	seen     []int64   // [classes]
	step     float32
}

func openCentroids(c *native.Call) (native.Model, error) {
	classes, features, err := c.Model.Matrix("centroid")
	if err != nil {
		return nil, err
	}
	if features != int64(c.Rows.Features) {
		return nil, native.NewInvalid("the data set has %d features, the model %d", c.Rows.Features, features)
	}
	m := &centroids{features: int(features), step: float32(c.Args.Number("step"))}
	if m.step == 0 {
		m.step = float32(c.LR)
	}
	if m.at, err = c.Model.Float32("centroid", classes, features); err != nil {
		return nil, err
	}
	m.seen, err = c.Optimizer.Int64("seen", classes) // all zero in the first round
	return m, err
}

// Train implements native.Model. The loss of a sample is the mean square of its
// distance from the centroid of its class, before that moves.
func (m *centroids) Train(b native.Batch) (float64, error) {
	var sum float64
	for i, label := range b.Y {
		if err := m.check(label); err != nil {
			return 0, err
		}
		sum += m.distance(label, b.Row(i))
		m.seen[label]++
		step := max(m.step, 1/float32(m.seen[label]))
		for j, x := range b.Row(i) {
			at := &m.at[int(label)*m.features+j]
			*at += float32(step * (x - *at))
		}
	}
	return sum / float64(b.N), nil
}

// Validate implements native.Model: the nearest centroid names the class.
func (m *centroids) Validate(b native.Batch) (native.Score, error) {
	var score native.Score
	for i, label := range b.Y {
		if err := m.check(label); err != nil {
			return score, err
		}
		nearest := int64(0)
		for class := range int64(len(m.seen)) {
			if m.distance(class, b.Row(i)) < m.distance(nearest, b.Row(i)) {
				nearest = class
			}
		}
		if nearest == label {
			score.Correct++
		}
		score.Loss += m.distance(label, b.Row(i))
	}
	return score, nil
}

func (m *centroids) check(label int64) error {
	if label < 0 || label >= int64(len(m.seen)) {
		return native.NewInvalid("label %d is not in [0, %d)", label, len(m.seen))
	}
	return nil
}

// distance is the mean square of the distance between a centroid and a row.
func (m *centroids) distance(class int64, row []float32) float64 {
	var sum float64
	for j, x := range row {
		d := float64(x - m.at[int(class)*m.features+j])
		sum += d * d
	}
	return sum / float64(m.features)
}
