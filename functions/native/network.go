package native

import (
	"math"
)

// bound is the most that a standardised input may be, in deviations: a feature
// that was nearly always the same in training must not drown the others when
// it is not.
const bound = 5

// network is a classifier: inputs standardised by buffers of the model, dense
// layers with ReLU between them, softmax cross-entropy (nats), SGD with
// momentum and a clipped gradient. It is the Model of both built-in functions.
type network struct {
	mean, scale []float32 // [features]: x is taken as (x - mean) * scale, within ±bound
	layers      []*dense
	classes     int
	lr          float32
	momentum    float32
	clip        float64 // the longest gradient that is followed in full; 0 = any
}

var (
	_ Model     = (*network)(nil)
	_ Predictor = (*network)(nil)
)

// openNetwork takes the layers of those names, first to last, out of the
// model.
func openNetwork(c *Call, names ...string) (*network, error) {
	n := &network{lr: float32(c.LR), momentum: float32(c.Args.Number("momentum")), clip: c.Args.Number("clip")}
	features, _, err := c.Model.Matrix(names[0] + ".weight")
	if err != nil {
		return nil, err
	}
	if features != int64(c.Rows.Features) {
		return nil, NewInvalid("the data set has %d features, the model was made for %d: use the data set it was made for, or start a new model",
			c.Rows.Features, features)
	}
	if n.mean, err = c.Model.Float32("input.mean", features); err != nil {
		return nil, err
	}
	if n.scale, err = c.Model.Float32("input.scale", features); err != nil {
		return nil, err
	}
	in := features
	for _, name := range names {
		layer, err := openDense(c, name, in, n.momentum > 0)
		if err != nil {
			return nil, err
		}
		n.layers = append(n.layers, layer)
		in = int64(layer.out)
	}
	n.classes = int(in)
	return n, nil
}

// Train implements Model.
func (n *network) Train(b Batch) (float64, error) {
	logits, err := n.forward(b)
	if err != nil {
		return 0, err
	}
	// The gradient of the mean loss takes the place of the logits.
	var sum float64
	for i, y := range b.Y {
		row := logits[i*n.classes : (i+1)*n.classes]
		loss, top, total := crossEntropy(row, y)
		sum += loss
		for j, z := range row {
			p := math.Exp(float64(z)-top) / total
			if int64(j) == y {
				p--
			}
			row[j] = float32(p / float64(b.N))
		}
	}
	grad := logits
	for i := len(n.layers) - 1; i >= 0; i-- {
		grad = n.layers[i].backward(grad, b.N, i > 0)
	}
	n.clipGradient()
	for _, layer := range n.layers {
		layer.step(n.lr, n.momentum)
	}
	return sum / float64(b.N), nil
}

// clipGradient shortens the gradient, over all layers, to the length clip. One
// that is not finite stays so: the loss will tell.
func (n *network) clipGradient() {
	if n.clip == 0 {
		return
	}
	var squares float64
	for _, layer := range n.layers {
		squares += sumSquares(layer.gw) + sumSquares(layer.gb)
	}
	if length := math.Sqrt(squares); length > n.clip {
		for _, layer := range n.layers {
			scale(layer.gw, float32(n.clip/length))
			scale(layer.gb, float32(n.clip/length))
		}
	}
}

// Validate implements Model.
func (n *network) Validate(b Batch) (Score, error) {
	logits, err := n.forward(b)
	if err != nil {
		return Score{}, err
	}
	var score Score
	for i, y := range b.Y {
		row := logits[i*n.classes : (i+1)*n.classes]
		loss, _, _ := crossEntropy(row, y)
		score.Loss += loss
		if argmax(row) == y {
			score.Correct++
		}
	}
	return score, nil
}

// Predict implements Predictor: the probability of each class, in the order of
// their numbers.
func (n *network) Predict(b Batch) ([]any, error) {
	logits, err := n.forward(b)
	if err != nil {
		return nil, err
	}
	predictions := make([]any, b.N)
	for i := range predictions {
		row := logits[i*n.classes : (i+1)*n.classes]
		_, top, total := crossEntropy(row, 0)
		p := make([]float64, n.classes)
		for j, z := range row {
			p[j] = math.Exp(float64(z)-top) / total
		}
		predictions[i] = p
	}
	return predictions, nil
}

// forward returns the logits [N, classes], which the last layer owns.
func (n *network) forward(b Batch) ([]float32, error) {
	for i, y := range b.Y {
		if y < 0 || y >= int64(n.classes) {
			return nil, NewInvalid("label %d of row %d is not in [0, %d), the classes that the training labels had at init: relabel the data set",
				y, b.Positions[i], n.classes)
		}
	}
	for i := range b.N {
		row := b.Row(i)
		for j, x := range row {
			row[j] = min(max((x-n.mean[j])*n.scale[j], -bound), bound) // NaN stays NaN
		}
	}
	x := b.X
	for i, layer := range n.layers {
		x = layer.forward(x, b.N, i < len(n.layers)-1)
	}
	return x, nil
}

// crossEntropy returns the loss of one row of logits, their maximum, and the
// sum of exp(logit - maximum).
func crossEntropy(logits []float32, y int64) (loss, top, total float64) {
	top = float64(logits[argmax(logits)])
	for _, z := range logits {
		total += math.Exp(float64(z) - top)
	}
	return math.Log(total) - (float64(logits[y]) - top), top, total
}

// argmax returns the index of the first of the highest values.
func argmax(row []float32) int64 {
	best := 0
	for j, z := range row {
		if z > row[best] {
			best = j
		}
	}
	return int64(best)
}
