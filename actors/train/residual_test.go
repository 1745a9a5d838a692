package train_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

func compressing(state string) func(*messages.TrainTask) {
	return func(task *messages.TrainTask) { task.Options.Compress, task.Options.OptimizerState = "int8", state }
}

// residuals returns the value of the residual that each invocation starts from,
// -1 for none.
func (s *stage) residuals(invs []*messages.Invoke) []float32 {
	return s.valuesOf(invs, (*messages.Invoke).GetResidual)
}

// compress encodes an answer, and says a quarter of its value to be the residual.
func (s *stage) compress(inv *messages.Invoke, a *messages.Invoked, value float32) {
	open := func(ref *messages.TensorRef) tensor.Source {
		blob, err := s.space.Open(s.t.Context(), wire.PlaneRef(ref))
		require.NoError(s.t, err)
		return tensor.Source{R: blob, Size: blob.Size()}
	}
	codec, err := tensor.NewCodec(open(inv.GetPlan().GetModel()))
	require.NoError(s.t, err)
	var encoded bytes.Buffer
	require.NoError(s.t, codec.Encode(open(a.GetModel()), tensor.Source{}, &encoded, io.Discard))
	require.NoError(s.t, s.space.Remove(a.GetModel().GetKey()))
	draft, err := s.space.Create(a.GetModel().GetKey(), codec.Size())
	require.NoError(s.t, err)
	_, err = encoded.WriteTo(draft)
	require.NoError(s.t, err)
	ref, err := draft.Seal()
	require.NoError(s.t, err)
	a.Model, a.Residual = wire.TensorRef(ref), s.tensors(inv.GetAttempt(), "residual", value/4)
}

// A function goes on from the residual of its own last accepted answer, whatever
// becomes of optimizer states, and what encoded answers stand for is merged.
func TestResidualsGoOnFromTheLastAcceptedAnswer(t *testing.T) {
	for _, state := range []string{"keep", "reset", "average"} {
		t.Run(state, func(t *testing.T) {
			s := newStage(t, 3, taskOf(100, compressing(state)))
			round := s.begin()
			require.Equal(t, "int8", round[0].GetPlan().GetCompress())
			require.Equal(t, []float32{-1, -1, -1}, s.residuals(round))
			s.finishWith(100, round...)
			round = s.next()
			require.InDelta(t, 101, s.value(round[0].GetPlan().GetModel()), 1e-4)
			require.Equal(t, []float32{25, 25.25, 25.5}, s.residuals(round))
			s.fail(round[1], crash())
			s.finishWith(200, round[0], round[2])
			round = s.next()
			require.Equal(t, []float32{50, 25.25, 50.5}, s.residuals(round))
			s.finishWith(300, round...)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
		})
	}
}

// Nothing is asked for, and nothing kept, without --compress; what is not encoded
// as asked for, or is though it should not be, is no answer.
func TestAnAnswerIsEncodedAsItWasAskedFor(t *testing.T) {
	for _, compress := range []string{"none", "int8"} {
		s := newStage(t, 1, taskOf(2, func(task *messages.TrainTask) { task.Options.Compress = compress }))
		round := s.begin()
		a := s.answer(round[0], 1)
		if compress == "int8" {
			a.Residual = nil
		} else {
			a.Residual = a.GetModel()
		}
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
		s.sim.Drain()
		require.Empty(t, s.merges())
		require.Contains(t, s.end().GetFailure().GetText(), "not encoded as compress")
	}
}

// Hosts keep the residuals that the next round starts from. Functions that are
// new, or that a smaller N left out, have none, and the history names them.
func TestResidualsAreKeptAndNamedAsStatesAre(t *testing.T) {
	s := newStage(t, 3, taskOf(100, compressing("reset")))
	round := s.begin()
	s.resize(resize(2, 2, 2))
	s.finishWith(100, round...)
	round = s.next()
	require.Equal(t, []float32{25, 25.25}, s.residuals(round))
	var told *messages.ReleaseTensors
	for _, msg := range s.host.Messages() {
		if m, ok := msg.(*messages.ReleaseTensors); ok {
			told = m
		}
	}
	require.Subset(t, told.GetKeep(), []string{"j/2/merged/model-1", "j/2/1-1-0-1/residual", "j/2/1-1-1-1/residual"})
	s.resize(resize(3, 3, 3))
	s.finishWith(200, round...)
	round = s.next()
	require.Equal(t, []float32{50, 50.25, -1}, s.residuals(round))
	s.finish(round...)
	require.Equal(t, []uint32{2}, s.end().GetEpochs()[0].GetFreshOptimizers())
}
