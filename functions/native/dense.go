package native

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// dense is a layer y = x W + b, with its gradients and momentum.
type dense struct {
	in, out int
	w, b    []float32 // [in, out], [out]; tensors of the model
	mw, mb  []float32 // momentum alike; tensors of the optimizer state, nil = none
	gw, gb  []float32 // gradients alike

	x, y, gx []float32 // of the current batch: [n, in] (the caller's), [n, out], [n, in]
	relu     bool      // y is max(y, 0)
}

// openDense takes a layer out of the model. Training with momentum, it takes or
// adds the optimizer's tensors too.
func openDense(c *Call, name string, in int64, momentum bool) (*dense, error) {
	_, out, err := c.Model.Matrix(name + ".weight")
	if err != nil {
		return nil, err
	}
	d := &dense{in: int(in), out: int(out)}
	if d.w, err = c.Model.Float32(name+".weight", in, out); err != nil {
		return nil, err
	}
	if d.b, err = c.Model.Float32(name+".bias", out); err != nil {
		return nil, err
	}
	if momentum && c.training() {
		if d.mw, err = c.Optimizer.Float32(name+".weight.momentum", in, out); err != nil {
			return nil, err
		}
		if d.mb, err = c.Optimizer.Float32(name+".bias.momentum", out); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// initDense adds a layer to the model, its weights normal with that deviation,
// its bias zero.
func initDense(c *Call, name string, in, out int64, deviation float64) error {
	w, err := c.Model.Float32(name+".weight", in, out)
	if err != nil {
		return err
	}
	if deviation > 0 {
		for i := range w {
			w[i] = float32(c.Rand.NormFloat64() * deviation)
		}
	}
	_, err = c.Model.Float32(name+".bias", out)
	return err
}

// forward returns y [n, out] for x [n, in]; y is the layer's until the next
// call. Each row of y is summed alike whatever n is.
func (d *dense) forward(x []float32, n int, relu bool) []float32 {
	d.x, d.y, d.relu = x, resize(d.y, n*d.out), relu
	for i := range n {
		copy(d.y[i*d.out:], d.b)
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, matrix(n, d.in, x), matrix(d.in, d.out, d.w), 1, matrix(n, d.out, d.y))
	if relu {
		for i, y := range d.y {
			if y < 0 {
				d.y[i] = 0
			}
		}
	}
	return d.y
}

// backward sets the gradients of w and b from that of y, which it changes, and
// returns that of x where wanted.
func (d *dense) backward(gy []float32, n int, wantX bool) []float32 {
	if d.relu {
		for i, y := range d.y {
			if y <= 0 {
				gy[i] = 0
			}
		}
	}
	d.gw, d.gb = resize(d.gw, len(d.w)), resize(d.gb, len(d.b))
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, matrix(n, d.in, d.x), matrix(n, d.out, gy), 0, matrix(d.in, d.out, d.gw))
	clear(d.gb)
	for i := range n {
		for j, g := range gy[i*d.out : (i+1)*d.out] {
			d.gb[j] += g
		}
	}
	if !wantX {
		return nil
	}
	d.gx = resize(d.gx, n*d.in)
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, matrix(n, d.out, gy), matrix(d.in, d.out, d.w), 0, matrix(n, d.in, d.gx))
	return d.gx
}

// step moves w and b against their gradients.
func (d *dense) step(lr, momentum float32) {
	sgd(d.w, d.gw, d.mw, lr, momentum)
	sgd(d.b, d.gb, d.mb, lr, momentum)
}

// sgd does m = momentum*m + g, w -= lr*m; without m it does w -= lr*g. Each
// product is rounded by itself, so that no CPU fuses it with the sum.
func sgd(w, g, m []float32, lr, momentum float32) {
	if m == nil {
		for i := range w {
			w[i] -= float32(lr * g[i])
		}
		return
	}
	for i := range w {
		m[i] = float32(momentum*m[i]) + g[i]
		w[i] -= float32(lr * m[i])
	}
}

func sumSquares(v []float32) (sum float64) {
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return sum
}

func scale(v []float32, by float32) {
	for i := range v {
		v[i] *= by
	}
}

func matrix(rows, cols int, data []float32) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
}
