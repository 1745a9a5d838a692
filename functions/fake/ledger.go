package fake

import (
	"io"
	"math"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// The ledger's model is {"count": I64 [samples], "weight": F32 [4]}; noop's is
// the weight alone.
//
// Training adds 1 to the count at each of its positions. Merging takes the
// maximum of integers, so that the merged counts are the union of a round's
// answers: after e epochs every count is e, unless a sample was left out or
// trained in two rounds of one epoch. (Twice in one round does not show in the
// counts; it shows in the samples of the answers.) The weight depends on the
// positions and their order. The optimizer state is {"batches": I64 [1]}: how
// many this function index has trained.
const (
	countName   = "count"
	weightName  = "weight"
	batchesName = "batches"
)

// Counts returns how often each sample was trained, from a ledger's model.
func Counts(model tensor.StateDict) ([]int64, error) {
	t, ok := model.Get(countName)
	if !ok {
		return nil, fault.New("fake.counts", fault.Invalid, "not a ledger's model: no tensor %q", countName)
	}
	return t.Int64(), nil
}

func (r *Runtime) init(inv functions.Invocation) (functions.Answer, error) {
	dict := tensor.StateDict{tensor.NewFloat32(weightName, []int64{4}, []float32{1, -1, 0.5, 0})}
	if inv.Function == Ledger {
		count := tensor.NewInt64(countName, []int64{inv.Data.Samples}, make([]int64, inv.Data.Samples))
		dict = append(tensor.StateDict{count}, dict...)
	}
	return functions.Answer{}, write(inv.ModelOut, dict)
}

func (r *Runtime) train(inv functions.Invocation) (functions.Answer, error) {
	garbage := r.config.Plan(inv).Garbage
	if inv.Function == NoOp && garbage == None {
		return counts(inv), copyModel(inv)
	}
	model, err := functions.ReadDict(inv.Model)
	if err != nil {
		return functions.Answer{}, err
	}
	answer := counts(inv)
	if inv.Function == Ledger {
		if answer.Loss, err = enter(model, inv.Positions); err != nil {
			return functions.Answer{}, err
		}
		if inv.OptimizerOut != nil {
			answer.HasOptimizer = true
			if err := optimizer(inv, answer.Batches); err != nil {
				return functions.Answer{}, err
			}
		}
	}
	if garbage == FewSamples {
		answer.Samples--
	}
	return answer, write(inv.ModelOut, spoil(model, garbage))
}

// counts is an answer with nothing but its sizes.
func counts(inv functions.Invocation) functions.Answer {
	return functions.Answer{
		Samples: int64(len(inv.Positions)),
		Batches: (len(inv.Positions)-1)/inv.BatchSize + 1,
	}
}

// copyModel answers the input model, as it is.
func copyModel(inv functions.Invocation) error {
	if inv.ModelOut == nil {
		return nil
	}
	w, err := inv.ModelOut.Create(inv.Model.Size)
	if err != nil {
		return err
	}
	buf := make([]byte, min(inv.Model.Size, 32<<10)) // models of fakes are small
	_, err = io.CopyBuffer(w, io.NewSectionReader(inv.Model.R, 0, inv.Model.Size), buf)
	return err
}

// enter books the positions in model, in place, and returns the mean loss.
func enter(model tensor.StateDict, positions []int64) (float64, error) {
	if len(model) != 2 || model[0].Name != countName || model[0].DType != tensor.I64 ||
		model[1].Name != weightName || model[1].DType != tensor.F32 || model[1].Elements() != 4 {
		return 0, fault.New("fake.train", fault.Invalid, "not a ledger's model: %v", model.Specs())
	}
	count, weight := model[0].Int64(), model[1].Float32()
	var loss float64
	for i, p := range positions {
		if p >= int64(len(count)) {
			return 0, fault.New("fake.train", fault.Invalid, "position %d: the ledger has %d samples", p, len(count))
		}
		count[p]++
		// Halving what was there makes the order matter.
		w := &weight[i%len(weight)]
		*w = *w/2 + float32(unit(p))/2
		loss += unit(p) / float64(count[p])
	}
	model[0] = tensor.NewInt64(countName, model[0].Shape, count)
	model[1] = tensor.NewFloat32(weightName, model[1].Shape, weight)
	return loss / float64(len(positions)), nil
}

func optimizer(inv functions.Invocation, batches int) error {
	state, err := functions.ReadDict(inv.Optimizer)
	if err != nil {
		return err
	}
	total := int64(batches)
	if len(state) > 0 {
		t, ok := state.Get(batchesName)
		if !ok || t.DType != tensor.I64 || t.Elements() != 1 {
			return fault.New("fake.train", fault.Invalid, "not a ledger's optimizer state: %v", state.Specs())
		}
		total += t.Int64()[0]
	}
	return write(inv.OptimizerOut, tensor.StateDict{tensor.NewInt64(batchesName, []int64{1}, []int64{total})})
}

// validate adds up, by sample, a loss that falls with the weight's distance
// from what training draws it to.
func (r *Runtime) validate(inv functions.Invocation) (functions.Answer, error) {
	model, err := functions.ReadDict(inv.Model)
	if err != nil {
		return functions.Answer{}, err
	}
	t, ok := model.Get(weightName)
	if !ok || t.Elements() != 4 {
		return functions.Answer{}, fault.New("fake.val", fault.Invalid, "not a fake's model: %v", model.Specs())
	}
	weight := t.Float64()
	answer := counts(inv)
	answer.HasAccuracy = true
	for _, p := range inv.Positions {
		distance := math.Abs(weight[p%4] - unit(p))
		answer.Loss += distance
		if distance < 0.5 {
			answer.Correct++
		}
	}
	return answer, nil
}

// unit maps a position to [0, 1), evenly spread.
func unit(p int64) float64 {
	const golden = 0.6180339887498949
	_, fraction := math.Modf(float64(p+1) * golden)
	return fraction
}

// spoil returns model with something wrong in its weight, the last tensor.
func spoil(model tensor.StateDict, garbage Garbage) tensor.StateDict {
	last := len(model) - 1
	if last < 0 {
		return model
	}
	w := model[last].Float32()
	if len(w) == 0 {
		return model
	}
	shape := model[last].Shape
	switch garbage {
	case NaN:
		w[0] = float32(math.NaN())
		model[last] = tensor.NewFloat32(weightName, shape, w)
	case WrongShape:
		model[last] = tensor.NewFloat32(weightName, []int64{int64(len(w)) + 1}, append(w, 0))
	case WrongDType:
		model[last] = tensor.NewFloat64(weightName, shape, model[last].Float64())
	case WrongName:
		model[last].Name = "wait"
	case None, FewSamples:
	}
	return model
}

// write puts dict into out, when that is wanted.
func write(out functions.Output, dict tensor.StateDict) error {
	if out == nil {
		return nil
	}
	return functions.WriteDict(out, dict)
}
