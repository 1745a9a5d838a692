package plane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/plane/planetest"
)

func TestMemoryConforms(t *testing.T) {
	planetest.Run(t, func(t *testing.T) plane.Space {
		m := plane.NewMemory(planetest.Node)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	})
}

func TestAFullMemoryIsUnavailable(t *testing.T) {
	m := plane.NewMemory("n1")
	m.SetLimit(10)
	d, err := m.Create("a", 8)
	require.NoError(t, err)
	_, err = m.Create("b", 3)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, "limit")
	require.NoError(t, d.Abort())
	_, err = m.Create("b", 3)
	require.NoError(t, err)
}

func BenchmarkMemorySmallKeys(b *testing.B) {
	m := plane.NewMemory("n1")
	data := make([]byte, 64)
	for b.Loop() {
		d, _ := m.Create("j1/e1/r0/f0-a0", 64)
		_, _ = d.Write(data)
		ref, _ := d.Seal()
		_ = m.Remove(ref.Key)
	}
}
