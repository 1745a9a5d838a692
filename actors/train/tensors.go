package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-ml/troupe/messages"
)

// perFunction is what is kept of functions' last accepted answers, by function.
type perFunction map[uint32]*messages.TensorRef

// leave drops what is of functions that a size of n has no work for.
func (p perFunction) leave(n uint32) {
	maps.DeleteFunc(p, func(function uint32, _ *messages.TensorRef) bool { return function >= n })
}

// byFunction is what a state has of each function: optimizer states and residuals.
// They are the state's own.
func byFunction(st *messages.JobState) [2]perFunction {
	return [2]perFunction{st.GetOptimizers(), st.GetResiduals()}
}

// TensorPlace is a place in a JobState that names a tensor. Within one
// incarnation of a job the same name means the same bytes.
type TensorPlace struct {
	Name string // of the file that it is in the store
	Own  bool   // it is the job's and lies beside it; else one of its functions has it
	Ref  *messages.TensorRef
	Set  func(*messages.TensorRef) // names another one there
}

// Tensors returns the places of a state that name a tensor, in a fixed order.
func Tensors(st *messages.JobState) []TensorPlace {
	var places []TensorPlace
	add := func(ref *messages.TensorRef, set func(*messages.TensorRef), name string, of ...any) {
		if ref != nil {
			places = append(places, TensorPlace{Name: fmt.Sprintf(name, of...) + ".safetensors", Own: true, Ref: ref, Set: set})
		}
	}
	version := st.GetModelVersion()
	best := st.GetBest().GetModel()
	if best != nil && st.GetBest().GetModelVersion() == version { // one tensor in two places
		add(st.GetModel(), func(r *messages.TensorRef) { st.Model, st.Best.Model = r, r }, "model-%d", version)
		best = nil
	} else {
		add(st.GetModel(), func(r *messages.TensorRef) { st.Model = r }, "model-%d", version)
	}
	for i, refs := range byFunction(st) {
		for _, function := range slices.Sorted(maps.Keys(refs)) {
			add(refs[function], func(r *messages.TensorRef) { refs[function] = r }, [...]string{"optimizer", "residual"}[i]+"-%d-%d", version, function)
			places[len(places)-1].Own = false
		}
	}
	add(st.GetSharedOptimizer(), func(r *messages.TensorRef) { st.SharedOptimizer = r }, "optimizer-%d", version)
	add(st.GetMomentum(), func(r *messages.TensorRef) { st.Momentum = r }, "momentum-%d", version)
	add(best, func(r *messages.TensorRef) { st.Best.Model = r }, "model-%d", st.GetBest().GetModelVersion())
	return places
}

// keysOf adds the keys of a state's tensors to set.
func keysOf(st *messages.JobState, set map[string]bool) {
	for _, t := range Tensors(st) {
		set[t.Ref.GetKey()] = true
	}
}
