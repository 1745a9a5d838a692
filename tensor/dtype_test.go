package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

var dtypes = map[tensor.DType]int64{
	tensor.F64: 8, tensor.F32: 4, tensor.F16: 2, tensor.BF16: 2,
	tensor.I64: 8, tensor.I32: 4, tensor.I16: 2, tensor.I8: 1, tensor.U8: 1, tensor.Bool: 1,
}

func TestDTypesParseTheirNames(t *testing.T) {
	for d, size := range dtypes {
		got, err := tensor.ParseDType(d.String())
		require.NoError(t, err)
		require.Equal(t, d, got)
		require.Equal(t, size, d.Size())
		require.Equal(t, d.String()[0] == 'F' || d.String()[0] == 'B' && d != tensor.Bool, d.IsFloat())
	}
	for _, name := range []string{"", "f32", "U64", "C64", "F8_E4M3", "dtype(0)"} {
		_, err := tensor.ParseDType(name)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
	require.Zero(t, tensor.DType(0).Size())
	require.False(t, tensor.DType(0).IsFloat())
}

// allBits returns a tensor with every bit pattern of a 16-bit type.
func allBits(d tensor.DType) tensor.Tensor {
	data := make([]byte, 0, 2<<16)
	for i := range 1 << 16 {
		data = append(data, byte(i), byte(i>>8))
	}
	return tensor.Tensor{Spec: tensor.Spec{Name: "w", DType: d, Shape: []int64{1 << 16}}, Data: data}
}

func TestHalfTypesAreReadExactly(t *testing.T) {
	f16, bf16 := allBits(tensor.F16).Float64(), allBits(tensor.BF16).Float64()
	for i := range 1 << 16 {
		requireSame(t, float64(float16.Frombits(uint16(i)).Float32()), f16[i])
		requireSame(t, float64(math.Float32frombits(uint32(i)<<16)), bf16[i])
	}
}

func requireSame(t *testing.T, want, got float64) {
	t.Helper()
	if math.IsNaN(want) {
		require.True(t, math.IsNaN(got))
	} else if math.Float64bits(want) != math.Float64bits(got) {
		require.Equal(t, want, got)
	}
}

// The oracle walks from a value to its neighbours of the type: the nearer one
// wins, of two equally near ones the even.
func TestHalfTypesRoundToTheNearestOnce(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		values := allBits(d).Float64()
		infinity := 0x7c00
		if d == tensor.BF16 {
			infinity = 0x7f80
		}
		rnd := rand.New(rand.NewPCG(7, uint64(d)))
		var in []float64
		var want []uint16
		add := func(x float64, bits int) {
			in = append(in, x, -x)
			want = append(want, uint16(bits), uint16(bits)|0x8000)
		}
		for lo := range infinity - 1 {
			a, b := values[lo], values[lo+1]
			half := a + (b-a)/2 // exact: the types are narrow
			add(a, lo)
			add(half, lo+lo&1)
			add(math.Nextafter(half, a), lo) // a rounded float32 between would make a tie of these two
			add(math.Nextafter(half, b), lo+1)
			if x := a + (b-a)*rnd.Float64(); x < half {
				add(x, lo)
			} else if x > half {
				add(x, lo+1)
			}
		}
		greatest := values[infinity-1]
		half := greatest + (greatest-values[infinity-2])/2
		add(math.Nextafter(half, 0), infinity-1)
		add(half, infinity)
		add(math.MaxFloat64, infinity)
		add(math.SmallestNonzeroFloat64, 0)
		got := tensor.New(tensor.Spec{DType: d}, in)
		for i := range in {
			if g := uint16(got.Data[2*i]) | uint16(got.Data[2*i+1])<<8; g != want[i] {
				require.Equal(t, want[i], g, "%s %x", d, in[i])
			}
		}
		require.True(t, math.IsNaN(tensor.New(tensor.Spec{DType: d}, []float64{math.NaN()}).Float64()[0]))
	}
}

func TestTensorsConvertTheirValues(t *testing.T) {
	for d := range dtypes {
		in := []float64{0, 1, 1, 0}
		v := tensor.New(tensor.Spec{Name: "w", DType: d, Shape: []int64{4}}, in)
		require.Equal(t, in, v.Float64(), d.String())
		require.Equal(t, []float32{0, 1, 1, 0}, v.Float32(), d.String())
		require.Equal(t, []int64{0, 1, 1, 0}, v.Int64(), d.String())
		if d != tensor.U8 && d != tensor.Bool {
			require.Equal(t, []float64{-3}, tensor.New(tensor.Spec{DType: d}, []float64{-3}).Float64(), d.String())
		}
	}
	require.Equal(t, []float32{1.5, -2}, tensor.NewFloat32("w", []int64{2}, []float32{1.5, -2}).Float32())
	require.Equal(t, []float64{1.5, -2}, tensor.NewFloat64("w", []int64{2}, []float64{1.5, -2}).Float64())
	require.Equal(t, []int64{math.MinInt64}, tensor.NewInt64("w", nil, []int64{math.MinInt64}).Int64())
	require.Empty(t, tensor.Tensor{}.Float32())
	require.EqualValues(t, 1, tensor.Spec{}.Elements())
	require.EqualValues(t, 0, tensor.Spec{DType: tensor.F32, Shape: []int64{0, math.MaxInt64, 9}}.Bytes())
}

func TestNpyTypesAreNamedAsInNumpy(t *testing.T) {
	names := map[tensor.NpyType]string{
		tensor.NpyBool: "bool", tensor.NpyInt8: "int8", tensor.NpyUint16: "uint16", tensor.NpyFloat64: "float64", 0: "?0",
	}
	for d, want := range names {
		require.Equal(t, want, d.String())
	}
}
