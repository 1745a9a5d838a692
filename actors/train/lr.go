package train

import "math"

// rate returns the learning rate of a round: lr, scaled by N as asked for, and
// rising evenly to that over the epochs of warm-up. Done is how many epochs are
// trained once the round is, so that the first round has more than nothing.
//
// Scaling by N keeps the step per sample (linear) or the noise of a step
// (sqrt): Goyal et al., "Accurate, Large Minibatch SGD", 2017; Krizhevsky, "One
// weird trick for parallelizing convolutional neural networks", 2014.
func rate(lr float64, scale string, n uint32, warmup, done float64) float64 {
	switch scale {
	case "linear":
		lr *= float64(n)
	case "sqrt":
		lr *= math.Sqrt(float64(n))
	}
	if done < warmup {
		lr *= done / warmup
	}
	return lr
}
