package native

import "math"

// sgdArgs are the arguments that both networks take.
func sgdArgs() []Arg {
	return []Arg{
		Number("momentum", 0.9, 0, 0.9999, "momentum of SGD; 0 = plain SGD, without optimizer state"),
		Number("clip", 1, 0, math.MaxFloat64, "longest gradient (Euclidean, over all weights) that is followed in full; 0 = any"),
	}
}

// softmax is logistic regression with several classes: one dense layer, from
// zero. Model: input.mean, input.scale [features], output.weight [features,
// classes], output.bias [classes], all F32. Optimizer state: the momentum of
// weight and bias, `<name>.momentum`.
func softmax() Function {
	return Function{
		Name: "softmax",
		Args: sgdArgs(),
		Init: func(c *Call) error {
			classes, err := initInput(c)
			if err != nil {
				return err
			}
			return initDense(c, "output", int64(c.Rows.Features), classes, 0)
		},
		Open: func(c *Call) (Model, error) { return openNetwork(c, "output") },
	}
}

// mlp has one hidden layer of ReLU units between input and output: the tensors
// of softmax, and hidden.weight [features, hidden], hidden.bias [hidden] before
// the output's.
func mlp() Function {
	return Function{
		Name: "mlp",
		Args: append([]Arg{Integer("hidden", 128, 1, 1<<16, "units of the hidden layer")}, sgdArgs()...),
		Init: func(c *Call) error {
			classes, err := initInput(c)
			if err != nil {
				return err
			}
			features, hidden := int64(c.Rows.Features), int64(c.Args.Integer("hidden"))
			if err := initDense(c, "hidden", features, hidden, math.Sqrt(2/float64(features))); err != nil {
				return err
			}
			return initDense(c, "output", hidden, classes, math.Sqrt(1/float64(hidden)))
		},
		Open: func(c *Call) (Model, error) { return openNetwork(c, "hidden", "output") },
	}
}
