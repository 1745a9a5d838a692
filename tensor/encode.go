package tensor

import (
	"bufio"
	"errors"
	"io"
	"math"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Encode writes an answer to encoded, and what that lacks of the answer to
// residual, Size and ResidualSize bytes. Before is the residual of the function's
// last answer; no reader: none. The answer is one that Check accepts. Invalid: the
// answer, or before, is not of the reference model. Corrupt: a file ends early.
// Unavailable: a reader or a writer failed.
func (c *Codec) Encode(answer, before Source, encoded, residual io.Writer) error {
	e := encoder{codec: c, encoded: bufio.NewWriterSize(encoded, windowBytes), residual: bufio.NewWriterSize(residual, windowBytes)}
	var err error
	e.reference = newStream("the reference model", c.reference, c.layout.DataStart)
	if e.answer, err = c.stream("the answer", c.layout, answer); err != nil {
		return err
	}
	if before.R != nil {
		if e.before, err = c.stream("the residual", c.residual, before); err != nil {
			return err
		}
	}
	if err := e.run(); err != nil {
		return err
	}
	if err := e.encoded.Flush(); err != nil {
		return writeFailed("the encoded answer", err)
	}
	if err := e.residual.Flush(); err != nil {
		return writeFailed("the residual", err)
	}
	return nil
}

// stream returns the data of a file that has to have the tensors of a layout.
func (c *Codec) stream(what string, want *Layout, s Source) (*stream, error) {
	have, err := want.like(s)
	if err != nil {
		return nil, fault.New(codecOp, fault.KindOf(err), "%s: %w", what, err)
	}
	if reason := difference(want, have); reason != "" {
		return nil, fault.New(codecOp, fault.Invalid, "%s is not of the reference model: %s", what, reason)
	}
	return newStream(what, s, have.DataStart), nil
}

// stream is the data of a file, read once from its beginning.
type stream struct {
	what string
	r    *bufio.Reader
}

func newStream(what string, s Source, dataStart int64) *stream {
	return &stream{what, bufio.NewReaderSize(io.NewSectionReader(s.R, dataStart, s.Size-dataStart), windowBytes)}
}

// read fills b.
func (s *stream) read(b []byte) error {
	_, err := io.ReadFull(s.r, b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(codecOp, fault.Corrupt, "%s is truncated", s.what)
	}
	return fault.New(codecOp, fault.Unavailable, "read %s: %w", s.what, err)
}

// encoder is one answer being encoded, block by block.
type encoder struct {
	codec                     *Codec
	reference, answer, before *stream // before: nil for none
	encoded, residual         *bufio.Writer

	raw, ref, left  [8 * blockElements]byte // of one block: the answer, the reference, residuals
	out             [8 + blockElements]byte // scale and q
	change, lacking [blockElements]float64
}

func (e *encoder) run() error {
	if err := e.codec.encoded.WriteHeader(e.encoded); err != nil {
		return err
	}
	if err := e.codec.residual.WriteHeader(e.residual); err != nil {
		return err
	}
	for i, entry := range e.codec.layout.Entries {
		keep := e.keep
		if e.codec.parameter[i] {
			keep = e.block
		}
		for left := entry.Elements(); left > 0; left -= blockElements {
			if err := keep(int(min(left, blockElements)), entry.DType); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep copies n elements of what is no parameter.
func (e *encoder) keep(n int, d DType) error {
	size := n * int(d.Size())
	if err := e.reference.read(e.ref[:size]); err != nil {
		return err
	}
	if err := e.answer.read(e.raw[:size]); err != nil {
		return err
	}
	_, _ = e.encoded.Write(e.raw[:size]) // an error stays, and Flush returns it
	return nil
}

// block encodes n elements of a parameter.
func (e *encoder) block(n int, d DType) error {
	size, change, lacking := n*int(d.Size()), e.change[:n], e.lacking[:n]
	if err := e.reference.read(e.ref[:size]); err != nil {
		return err
	}
	if err := e.answer.read(e.raw[:size]); err != nil {
		return err
	}
	residual := e.left[:n*int(wide(d).Size())]
	clear(lacking)
	if e.before != nil {
		if err := e.before.read(residual); err != nil {
			return err
		}
		decode(lacking, residual, wide(d))
	}
	var value, ref [blockElements]float64
	decode(value[:n], e.raw[:size], d)
	decode(ref[:n], e.ref[:size], d)
	largest := 0.0
	for i := range change {
		change[i] = value[i] - ref[i] + lacking[i]
		if x := math.Abs(change[i]); x > largest {
			largest = x
		}
	}
	huge := largest > math.Sqrt(maxFinite(wide(d))) // and no sum of a few overflows unless it is
	if huge {
		largest = limit(change, math.MaxFloat64)
	}
	out := e.out[:int(wide(d).Size())+n]
	quantise(out, change, largest, d)
	restore(e.raw[:size], e.ref[:size], out, 0, d)
	decode(value[:n], e.raw[:size], d)
	for i := range lacking {
		lacking[i] = change[i] - (value[i] - ref[i])
	}
	if huge {
		limit(lacking, maxFinite(wide(d)))
	}
	encode(residual, lacking, wide(d))
	_, _ = e.encoded.Write(out)
	_, _ = e.residual.Write(residual)
	return nil
}

// toInteger added to a number below 2^51 in magnitude rounds it to the nearest
// integer, ties to even, which is then in the low bits.
const toInteger = 3 << 51

// quantise writes a block's scale and q to out; the largest change is given.
func quantise(out []byte, change []float64, largest float64, d DType) {
	at := wide(d)
	one := [1]float64{largest / levels}
	encode(out, one[:], at)
	decode(one[:], out, at) // as whoever decodes it has it
	scale, q := one[0], out[at.Size():]
	if scale < smallestNormal(at) { // it is far from exact, or 0
		for i, x := range change {
			q[i] = 0
			if scale > 0 {
				q[i] = byte(int8(math.RoundToEven(within(x/scale, levels))))
			}
		}
		return
	}
	steps := 1 / scale
	for i, x := range change {
		q[i] = byte(math.Float64bits(float64(x*steps) + toInteger))
	}
}

// smallestNormal is the least number of a type that has all its bits.
func smallestNormal(d DType) float64 {
	if d == F64 {
		return 0x1p-1022
	}
	return 0x1p-126
}

// within returns x, or what is nearest to it in [-limit, limit].
func within(x, limit float64) float64 {
	if math.Abs(x) > limit {
		return math.Copysign(limit, x)
	}
	return x
}

// limit brings values within a limit, and returns the largest magnitude of them.
func limit(values []float64, most float64) (largest float64) {
	for i, x := range values {
		values[i] = within(x, most)
		largest = max(largest, math.Abs(values[i]))
	}
	return largest
}
