package host

import (
	"errors"
	"io"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// output is a state dict that a runtime writes to the plane.
type output struct {
	space plane.Space
	key   string // of the draft
	what  string // for errors: "model"
	draft plane.Draft
	check *tensor.Checker
	spoil func(plane.Ref) (plane.Ref, error) // nil: chaos leaves it alone
	keys  []string                           // that may be sealed
}

var _ functions.Output = (*output)(nil)

func (x *execution) output(part string, check *tensor.Checker) *output {
	o := &output{space: x.executor.Space, key: x.key(part), what: part, check: check}
	x.outputs = append(x.outputs, o)
	return o
}

// Create implements functions.Output.
func (o *output) Create(size int64) (io.Writer, error) {
	if o.draft != nil {
		return nil, fault.New("host.output", fault.Rejected, "the %s was to be written twice", o.what)
	}
	draft, err := o.space.Create(o.key, size)
	if err != nil {
		return nil, err
	}
	o.draft = draft
	return draft, nil
}

// Path implements functions.Output.
func (o *output) Path() string {
	if o.draft == nil {
		return ""
	}
	return o.draft.Path()
}

// seal ends the writing and checks what was written: against the reference
// model, or, where there is none (Size 0), for being finite.
func (o *output) seal(reference tensor.Source) (*messages.TensorRef, error) {
	if o.draft == nil {
		return nil, fault.New("host.output", fault.Rejected, "the function wrote no %s", o.what)
	}
	ref, err := o.draft.Seal()
	if fault.KindOf(err) == fault.Invalid { // not as long as the runtime said
		return nil, fault.New("host.output", fault.Rejected, "%s: %w", o.what, err)
	}
	if err != nil {
		return nil, err
	}
	o.keys = append(o.keys, ref.Key)
	if o.spoil != nil {
		if ref, err = o.spoil(ref); err != nil {
			return nil, err
		}
		o.keys = append(o.keys, ref.Key)
	}
	blob, err := o.space.Open(ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	written := tensor.Source{R: blob, Size: blob.Size()}
	if reference.Size == 0 {
		reference = written
	}
	if err := o.check.Check(reference, written); err != nil {
		return nil, fault.New("host.output", fault.KindOf(err), "%s: %w", o.what, err)
	}
	return wire.TensorRef(ref), nil
}

// discard gives back whatever was written.
func (x *execution) discard() error {
	var errs []error
	for _, o := range x.outputs {
		if o.draft != nil {
			errs = append(errs, o.draft.Abort(), o.space.Remove(o.keys...))
		}
	}
	return errors.Join(errs...)
}
