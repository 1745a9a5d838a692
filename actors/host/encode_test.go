package host_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// compressed is an assignment whose answer is to be encoded.
func (b *bench) compressed() *messages.Invoke {
	inv := b.train()
	inv.Plan.Compress = "int8"
	return inv
}

// trained is the reference model, some way on.
func trained(by float64) tensor.StateDict {
	d := model()
	for i, x := range d {
		v := x.Float64()
		for k := range v {
			if x.DType.IsFloat() {
				v[k] += by * float64(k+1) / 7
			}
		}
		d[i] = tensor.New(x.Spec, v)
	}
	return d
}

// source opens a tensor of a test's space.
func (b *bench) source(t *testing.T, ref *messages.TensorRef) tensor.Source {
	t.Helper()
	blob, err := b.space.Open(t.Context(), wire.PlaneRef(ref))
	require.NoError(t, err)
	t.Cleanup(func() { _ = blob.Close() })
	return tensor.Source{R: blob, Size: blob.Size()}
}

// What an attempt leaves is the encoded answer in the answer's place and the
// residual, bit for bit what the codec makes of what the function wrote and of
// the residual that the attempt started from; nothing of the model itself stays.
func TestAnAnswerIsEncodedInItsPlace(t *testing.T) {
	for name, space := range map[string]plane.Space{"files": scratch(t), "memory": plane.NewMemory("here")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, space)
			codec, err := tensor.NewCodec(b.source(t, b.model))
			require.NoError(t, err)
			var before *messages.TensorRef
			for round, by := range []float64{0.1, 0.03} {
				b.answers(trained(by), tensor.StateDict{tensor.NewFloat32("m", []int64{1}, []float32{1})}, same)
				inv := b.compressed()
				inv.Attempt.Round, inv.Residual = uint32(round+1), before
				answer, err := b.Execute(t.Context(), inv, 0, nil)
				require.NoError(t, err)
				require.NotNil(t, answer.GetOptimizer())
				require.Equal(t, host.AnswerKey(inv.GetAttempt(), uint64(round+1), "model"), answer.GetModel().GetKey())
				require.NotZero(t, answer.GetModel().GetDigest())
				require.NotZero(t, answer.GetResidual().GetDigest())
				require.Len(t, space.List("job/"), 3+3*round, "no model but the encoded one")

				var file, want, left bytes.Buffer
				_, err = tensor.Write(&file, trained(by))
				require.NoError(t, err)
				var last tensor.Source
				if before != nil {
					last = b.source(t, before)
				}
				require.NoError(t, codec.Encode(tensor.Source{R: bytes.NewReader(file.Bytes()), Size: int64(file.Len())}, last, &want, &left))
				for ref, content := range map[*messages.TensorRef][]byte{answer.GetModel(): want.Bytes(), answer.GetResidual(): left.Bytes()} {
					got := b.source(t, ref)
					all, err := io.ReadAll(io.NewSectionReader(got.R, 0, got.Size))
					require.NoError(t, err)
					require.Equal(t, content, all)
				}
				before = answer.GetResidual()
			}
			step := b.compressed().GetAttempt()
			step.Round = 2
			require.NoError(t, host.Release(space, &messages.ReleaseTensors{Step: step, Keep: []string{before.GetKey()}}))
			require.Equal(t, []string{before.GetKey()}, space.List("job/"))
			require.NoError(t, host.Release(space, &messages.ReleaseTensors{Step: step, Everything: true}))
			b.nothingLeft(t)
		})
	}
}

// What may not enter a merge is rejected before it is encoded, and what fails
// leaves nothing, whenever it does.
func TestWhatIsNotEncodedLeavesNothing(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	bad := trained(0.1)
	bad[2] = tensor.NewFloat64("bias", []int64{2}, []float64{0, math.NaN()})
	b.answers(bad, nil, same)
	_, err := b.Execute(t.Context(), b.compressed(), 0, nil)
	require.Equal(t, fault.Rejected, fault.KindOf(err))
	require.ErrorContains(t, err, `model: tensor "bias": NaN`)
	b.nothingLeft(t)

	inv := b.compressed()
	inv.Plan.Compress = "int4"
	b.answers(trained(0.1), nil, same)
	_, err = b.Execute(t.Context(), inv, 0, nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	b.nothingLeft(t)

	inv = b.compressed()
	inv.Residual = &messages.TensorRef{Node: "here", Key: "not/there", Bytes: 10}
	_, err = b.Execute(t.Context(), inv, 0, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "not/there")
	b.nothingLeft(t)

	for room := range 3 { // the model, what it is encoded to, the residual
		b := newBench(t, plane.NewMemory("here"))
		tight := &roomFor{Memory: plane.NewMemory("here"), left: room}
		b.Space, b.space = tight, tight
		b.model = put(t, tight.Memory, "reference", model())
		_, err := b.Execute(t.Context(), b.compressed(), 0, nil)
		require.Equal(t, fault.Unavailable, fault.KindOf(err), room)
		b.nothingLeft(t)
	}

	ctx, cancel := context.WithCancel(t.Context())
	b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
		defer cancel()
		return answerOf(inv), functions.WriteDict(inv.ModelOut, trained(0.1))
	}
	_, err = b.Execute(ctx, b.compressed(), 0, nil)
	require.ErrorIs(t, err, context.Canceled)
	b.nothingLeft(t)
}

// roomFor has room for so many more files.
type roomFor struct {
	*plane.Memory
	left int
}

// Create implements plane.Space.
func (r *roomFor) Create(key string, size int64) (plane.Draft, error) {
	if r.left == 0 {
		return nil, fault.New("host_test.create", fault.Unavailable, "no room for %q", key)
	}
	r.left--
	return r.Memory.Create(key, size)
}

// Only trainings are encoded: a first model is what all else is a change of.
func TestAFirstModelIsNotEncoded(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	inv := b.compressed()
	inv.Attempt.Task = messages.Task_TASK_INIT
	answer, err := b.Execute(t.Context(), inv, 0, nil)
	require.NoError(t, err)
	require.Equal(t, model(), get(t, b.space, answer.GetModel()))
	require.Nil(t, answer.GetResidual())
}
