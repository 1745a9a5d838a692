package train

import (
	"fmt"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// summand is what a merge reads: an answer, or the sum of several.
type summand struct {
	ref     *messages.TensorRef
	answers []tensor.Answer
}

// summands returns what one part of the answers is merged from: sums where hosts
// have made them, and the other answers, those that have that part.
func (w *mergeWork) summands(of parts) []summand {
	in := map[uint32]int{} // index of the sum that a function is in
	var out []summand
	for _, s := range w.sums {
		if s.optimizer != of.optimizer {
			continue
		}
		for _, function := range s.functions {
			in[function] = len(out)
		}
		out = append(out, summand{ref: s.ref})
	}
	for _, a := range w.step.answers() {
		ref := of.get(a)
		if ref == nil {
			continue
		}
		function := a.GetAttempt().GetFunction()
		i, summed := in[function]
		if !summed {
			i, out = len(out), append(out, summand{ref: ref})
		}
		out[i].answers = append(out[i].answers, tensor.Answer{Function: int(function), Weight: weightOf(a, of.unweighted)})
	}
	return out
}

// openAll opens all that is merged. What lies on other nodes is fetched from each
// of them at the same time. On an error too, what it returns is open.
func (w *mergeWork) openAll(all []summand) ([]plane.Blob, error) {
	blobs, errs := make([]plane.Blob, len(all)), make([]error, len(all))
	open := func(i int) { blobs[i], errs[i] = w.open(all[i], len(all)) }
	byNode := map[string][]int{}
	for i, s := range all {
		byNode[s.ref.GetNode()] = append(byNode[s.ref.GetNode()], i)
	}
	var fetching sync.WaitGroup
	for node, those := range byNode {
		if node == w.node {
			continue
		}
		fetching.Go(func() {
			for _, i := range those {
				open(i)
			}
		})
	}
	for _, i := range byNode[w.node] {
		open(i)
	}
	fetching.Wait()
	var opened []plane.Blob
	for i, err := range errs {
		if err != nil {
			function := uint32(all[i].answers[0].Function)
			err = &outOfReach{function: function, err: fmt.Errorf("open the answer of function %d: %w", function, err)}
			for _, blob := range blobs {
				if blob != nil {
					opened = append(opened, blob)
				}
			}
			return opened, err
		}
	}
	return blobs, nil
}

// open opens an answer or a sum. A panic, a bug of ours, is an error: it may be on a
// goroutine of its own.
func (w *mergeWork) open(s summand, n int) (blob plane.Blob, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New("train.merge", fault.Unknown, "opening an answer panicked: %v", p)
		}
	}()
	return plane.OpenOneOf(w.ctx, w.space, wire.PlaneRef(s.ref), n)
}
