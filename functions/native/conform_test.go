package native_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
)

// raises makes a model and panics on its third batch.
func raises() native.Function {
	return native.Function{
		Name: "raises",
		Init: func(c *native.Call) error {
			_, err := c.Model.Float32("w", 1)
			return err
		},
		Open: func(*native.Call) (native.Model, error) { return panicking{}, nil },
	}
}

type panicking struct{}

func (panicking) Train(b native.Batch) (float64, error) {
	if b.Index == 2 {
		return float64(b.X[len(b.X)]), nil // out of range
	}
	return 0, nil
}

func (panicking) Validate(native.Batch) (native.Score, error) { return native.Score{}, nil }

func TestNativeConforms(t *testing.T) {
	for _, function := range []string{"softmax", "mlp"} {
		t.Run(function, func(t *testing.T) {
			functionstest.Run(t, func(t *testing.T) functionstest.Subject {
				runtime, err := native.New(raises())
				require.NoError(t, err)
				return functionstest.Subject{Runtime: runtime, Function: function, Raises: "raises"}
			})
		})
	}
}
