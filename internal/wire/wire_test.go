package wire_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

func TestEveryKindSurvivesTheWire(t *testing.T) {
	for _, kind := range fault.Kinds() {
		sent := fault.New("host.run", kind, "function %d", 3)
		sent.Trace = "line 7"
		got := wire.Error(wire.Failure(sent))
		require.Equal(t, kind, fault.KindOf(got))
		require.Equal(t, "function 3", got.Error())
		require.Equal(t, "line 7", fault.TraceOf(got))
	}
}

func TestKindsHaveTheSameNumberOnBothSides(t *testing.T) {
	seen := map[messages.FailureKind]bool{}
	for _, kind := range fault.Kinds() {
		seen[wire.Failure(fault.New("x", kind, "x")).GetKind()] = true
	}
	require.Len(t, seen, len(messages.FailureKind_name))
}

func TestNoErrorIsNoFailure(t *testing.T) {
	require.Nil(t, wire.Failure(nil))
	require.NoError(t, wire.Error(nil))
}

func TestAPlainErrorIsUnknown(t *testing.T) {
	require.Equal(t, fault.Unknown, fault.KindOf(wire.Error(wire.Failure(io.EOF))))
}

func TestAKindOfALaterVersionIsUnknown(t *testing.T) {
	require.Equal(t, fault.Unknown, fault.KindOf(wire.Error(&messages.Failure{Kind: 99, Text: "x"})))
}

func TestTensorRefsAreTwins(t *testing.T) {
	ref := plane.Ref{Node: "a", Key: "k", Bytes: 1 << 40, Digest: 1 << 63}
	require.Equal(t, ref, wire.PlaneRef(wire.TensorRef(ref)))
}
