package tensor

import (
	"io"
	"math"
	"slices"
	"sort"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Open returns an encoded answer as the model that it stands for: a file with the
// header of the reference model, whose values are computed as they are read. It
// can be read as long as the answer and the reference can; the codec's readers
// share its memory and take turns. Corrupt, Invalid, Rejected: the answer is none that
// was encoded against this reference.
func (c *Codec) Open(answer Source) (Source, error) {
	same, err := c.encoded.heads(answer, make([]byte, len(c.encoded.header)))
	if err != nil {
		return Source{}, err
	}
	if !same {
		have, err := ReadLayout(answer.R, answer.Size)
		if err != nil {
			return Source{}, err
		}
		reason := difference(c.encoded, have)
		if reason == "" {
			reason = "it does not say " + encodingForm
		}
		return Source{}, fault.New(codecOp, fault.Rejected, "the answer is not encoded against the reference model: %s", reason)
	}
	return Source{R: &decoded{c, answer.R}, Size: c.layout.Size()}, nil
}

// decoded is a model whose values are computed from those of an encoded one.
type decoded struct {
	codec  *Codec
	answer io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (d *decoded) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fault.New(codecOp, fault.Invalid, "offset %d is below 0", off)
	}
	c := d.codec
	c.mu.Lock()
	defer c.mu.Unlock()
	for size := c.layout.Size(); n < len(p) && off < size; {
		part := p[n:]
		if off < c.layout.DataStart {
			part = part[:copy(part, c.layout.header[off:])]
		} else {
			part = part[:min(int64(len(part)), windowBytes, size-off)]
			if err := c.decode(part, off, d.answer); err != nil {
				return n, err
			}
		}
		n += len(part)
		off += int64(len(part))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// decoding is what a codec needs to decode windows.
type decoding struct {
	ref []byte // the reference's window, of whole elements
	at  int64  // its offset in the file; 0: there is none
	raw []byte // what of the answer is decoded
	out []byte // values of which only a part was asked for
}

// decode fills p with the model's bytes from off on, which are values: at most a
// window of them.
func (c *Codec) decode(p []byte, off int64, answer io.ReaderAt) error {
	first, a := c.locate(off)
	last, b := c.locate(off + int64(len(p)) - 1)
	lo, hi := c.layout.position(first, a), c.layout.position(last, b+1)
	if err := c.readReference(lo, hi); err != nil {
		return err
	}
	from, to := c.block(first, a), c.blockEnd(last, b)
	c.win.raw = sized(c.win.raw, to-from)
	if err := readFull(answer, c.win.raw, from); err != nil {
		return err
	}
	out := p
	if int64(len(p)) != hi-lo { // not of whole elements
		c.win.out = sized(c.win.out, hi-lo)
		out = c.win.out
	}
	for i, done := first, int64(0); i <= last; i++ {
		begin, end := int64(0), c.layout.Entries[i].Elements()
		if i == first {
			begin = a
		}
		if i == last {
			end = b + 1
		}
		size := (end - begin) * c.layout.Entries[i].DType.Size()
		c.fill(i, begin, out[done:done+size], c.win.ref[done:done+size], c.win.raw[c.block(i, begin)-from:])
		done += size
	}
	if len(out) != len(p) {
		copy(p, out[off-lo:])
	}
	return nil
}

// fill decodes elements of one tensor from the one with index begin on, raw from
// its block on.
func (c *Codec) fill(entry int, begin int64, out, ref, raw []byte) {
	d := c.layout.Entries[entry].DType
	if !c.parameter[entry] {
		copy(out, raw)
		return
	}
	for skip := int(begin % blockElements); len(out) > 0; skip = 0 {
		n := min(len(out), (blockElements-skip)*int(d.Size()))
		restore(out[:n], ref[:n], raw, skip, d)
		out, ref, raw = out[n:], ref[n:], raw[min(int64(len(raw)), blockBytes(d)):]
	}
}

// locate returns which element of which tensor has the byte at off of the model.
func (c *Codec) locate(off int64) (entry int, element int64) {
	entries := c.layout.Entries
	entry = sort.Search(len(entries), func(i int) bool { return entries[i].Offset+entries[i].Bytes() > off })
	return entry, (off - entries[entry].Offset) / entries[entry].DType.Size()
}

// position returns where in the file an element of a tensor begins.
func (l *Layout) position(entry int, element int64) int64 {
	return l.Entries[entry].Offset + element*l.Entries[entry].DType.Size()
}

// block returns where in an encoded file what decodes an element begins.
func (c *Codec) block(entry int, element int64) int64 {
	if !c.parameter[entry] {
		return c.encoded.position(entry, element)
	}
	return c.encoded.Entries[entry].Offset + element/blockElements*blockBytes(c.layout.Entries[entry].DType)
}

// blockEnd returns where it ends.
func (c *Codec) blockEnd(entry int, element int64) int64 {
	if !c.parameter[entry] {
		return c.encoded.position(entry, element+1)
	}
	return c.block(entry, element) + wide(c.layout.Entries[entry].DType).Size() + element%blockElements + 1
}

// readReference has the bytes [lo, hi) of the reference in c.win.ref. A merge
// reads the same window of one answer after the other.
func (c *Codec) readReference(lo, hi int64) error {
	if c.win.at == lo && int64(len(c.win.ref)) == hi-lo {
		return nil
	}
	c.win.at, c.win.ref = 0, sized(c.win.ref, hi-lo)
	if err := readFull(c.reference.R, c.win.ref, lo); err != nil {
		return fault.New(codecOp, fault.KindOf(err), "reference model: %w", err)
	}
	c.win.at = lo
	return nil
}

// sized returns b, or a longer one, with a length of n.
func sized(b []byte, n int64) []byte { return slices.Grow(b[:0], int(n))[:n] }

// restore fills out with the values of elements of a block: those from the one
// with index skip on, as many as ref has. No change, no residual: the reference, bit for bit.
func restore(out, ref, block []byte, skip int, d DType) {
	var scale [1]float64
	decode(scale[:], block, wide(d))
	n := len(ref) / int(d.Size())
	q := block[int(wide(d).Size())+skip:][:n]
	if d == F32 {
		restoreF32(out, ref, q, scale[0])
		return
	}
	var values [blockElements]float64
	decode(values[:n], ref, d)
	most := maxFinite(d)
	for i, x := range values[:n] {
		values[i] = within(x-float64(float64(-int(int8(q[i])))*scale[0]), most) // x - 0, not x + 0, which makes 0 of -0
	}
	encode(out, values[:n], d)
}

func restoreF32(out, ref, q []byte, scale float64) {
	most := maxFinite(F32)
	out, ref = out[:4*len(q)], ref[:4*len(q)]
	for i, step := range q {
		x := float64(math.Float32frombits(le.Uint32(ref[4*i:])))
		x = within(x-float64(float64(-int(int8(step)))*scale), most)
		le.PutUint32(out[4*i:], math.Float32bits(float32(x)))
	}
}
