package host

import (
	"context"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// encodes reports whether an attempt's answer is to be encoded. Invalid: in a way
// that there is not.
func encodes(inv *messages.Invoke) (bool, error) {
	encoding, err := tensor.ParseEncoding(inv.GetPlan().GetCompress())
	return encoding != tensor.Plain && inv.GetAttempt().GetTask() == messages.Task_TASK_TRAIN, err
}

// modelKey is where a runtime's model goes: what is encoded from it takes the
// answer's place.
func modelKey(encoded bool) string {
	if encoded {
		return keyPlain
	}
	return keyModel
}

// encode encodes a model that may enter a merge, against the one that the function
// started from, and makes the residual for the function's next attempt. The model goes.
func (x *execution) encode(ctx context.Context, plain *messages.TensorRef, reference functions.Input) (model, residual *messages.TensorRef, err error) {
	codec, err := tensor.NewCodec(tensor.Source{R: reference.R, Size: reference.Size})
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x.product(ctx, keyModel, codec.Size())
	if err != nil {
		return nil, nil, err
	}
	left, err := x.product(ctx, keyResidual, codec.ResidualSize())
	if err != nil {
		return nil, nil, err
	}
	blob, err := x.executor.Space.Open(ctx, wire.PlaneRef(plain))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = blob.Close() }()
	before := tensor.Source{R: x.residual.R, Size: x.residual.Size}
	if err := codec.Encode(tensor.Source{R: blob, Size: blob.Size()}, before, encoded, left); err != nil {
		return nil, nil, err
	}
	if model, err = encoded.seal(); err != nil {
		return nil, nil, err
	}
	if residual, err = left.seal(); err != nil {
		return nil, nil, err
	}
	return model, residual, x.executor.Space.Remove(plain.GetKey())
}

// product is a file of the answer that the host makes itself.
type product struct {
	*output
	ctx    context.Context
	digest *xxhash.Digest
}

func (x *execution) product(ctx context.Context, part string, size int64) (*product, error) {
	p := &product{output: x.output(part, nil), ctx: ctx, digest: xxhash.New()}
	_, err := p.Create(size)
	return p, err
}

// Write implements io.Writer. It ends with the context.
func (p *product) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return io.MultiWriter(p.output, p.digest).Write(b)
}

// seal ends the writing. There is nothing to check: who reads the file is told its digest.
func (p *product) seal() (*messages.TensorRef, error) {
	ref, err := p.draft.Seal()
	if err != nil {
		return nil, err
	}
	p.keys = append(p.keys, ref.Key)
	ref.Digest = p.digest.Sum64()
	return wire.TensorRef(ref), nil
}
