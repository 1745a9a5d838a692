package train

import (
	"context"
	"fmt"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// adoptWork brings the job's first model here, and gives it the values of another
// one (--init) where there is one; ready to run off the actor.
type adoptWork struct {
	ctx     context.Context
	space   plane.Space
	open    func(context.Context, string) (plane.Blob, error)
	base    *messages.TensorRef // as the function made it
	from    string              // a model's id or a file; "": the model stays as it is
	partial bool
	key     string // of the new model
}

// adopted is how that ended.
type adopted struct {
	model *messages.TensorRef
	err   error
}

// run grafts; it is what Rim.Go gets.
func (w *adoptWork) run() any {
	if w.from == "" {
		model, err := w.copy()
		return &adopted{model: model, err: err}
	}
	model, err := w.graft()
	switch {
	case err != nil && !w.partial && fault.KindOf(err) == fault.Invalid:
		err = fmt.Errorf("start from %q: %w: --init-partial takes what fits", w.from, err)
	case err != nil:
		err = fmt.Errorf("start from %q: %w", w.from, err)
	}
	return &adopted{model: model, err: err}
}

// first opens the model as the function made it.
func (w *adoptWork) first() (plane.Blob, error) {
	blob, err := w.space.Open(w.ctx, wire.PlaneRef(w.base))
	if err != nil {
		return nil, &outOfReach{function: 0, err: fmt.Errorf("open the first model: %w", err)}
	}
	return blob, nil
}

func (w *adoptWork) copy() (*messages.TensorRef, error) {
	base, err := w.first()
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return copyHere(w.space, w.key, base, "train.adopt")
}

func (w *adoptWork) graft() (*messages.TensorRef, error) {
	base, err := w.first()
	if err != nil {
		return nil, err
	}
	defer base.Close()
	scion, err := w.open(w.ctx, w.from)
	if err != nil {
		return nil, err
	}
	defer scion.Close()
	source := tensor.Source{R: base, Size: base.Size()}
	size, err := mergedSize(source)
	if err != nil {
		return nil, err
	}
	draft, err := w.space.Create(w.key, size)
	if err != nil {
		return nil, err
	}
	defer draft.Abort()
	if err := tensor.Graft(draft, source, tensor.Source{R: scion, Size: scion.Size()}, w.partial); err != nil {
		return nil, err
	}
	ref, err := draft.Seal()
	return wire.TensorRef(ref), err
}

// mergedSize returns the size of the file that tensor.Graft writes for a dict
// that looks like this one.
func mergedSize(like tensor.Source) (int64, error) {
	layout, err := tensor.ReadLayout(like.R, like.Size)
	if err != nil {
		return 0, err
	}
	if layout, err = layout.Rewritten(); err != nil {
		return 0, err
	}
	return layout.Size(), nil
}
