package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	metadataKey = "__metadata__"
	// maxHeader is the limit of the safetensors library itself.
	maxHeader = 100_000_000
	// dataAlign is what the data of files we write starts at a multiple of.
	dataAlign = 64
)

// Layout says where the tensors of a safetensors file are. It comes from
// NewLayout or ReadLayout and is read-only from then on.
type Layout struct {
	Entries   []Entry // in the order of the data: offsets ascend, without holes
	DataStart int64   // bytes before the data: 8 + the header's length
	// Metadata is the file's free text, nil for none.
	Metadata map[string]string

	header []byte // the first DataStart bytes of the file
}

// Entry is one tensor of a file.
type Entry struct {
	Spec
	Offset int64 // of the first value, from the file's start
}

// NewLayout lays tensors out in the order given. DataStart is a multiple of
// 64; within the data the format allows no holes, so a tensor that follows one
// of narrower elements may be unaligned. Shapes are shared with the specs.
// Invalid, naming the tensor: bad or repeated names, no dtype, a size that
// overflows.
func NewLayout(specs []Spec) (*Layout, error) { return newLayout(specs, nil) }

// Rewritten returns the layout of a file that we write for the tensors of l,
// with its metadata, which are shared.
func (l *Layout) Rewritten() (*Layout, error) { return newLayout(l.Specs(), l.Metadata) }

func newLayout(specs []Spec, metadata map[string]string) (*Layout, error) {
	const op = "tensor.layout"
	l := &Layout{Entries: make([]Entry, len(specs)), Metadata: metadata}
	seen := make(map[string]struct{}, len(specs))
	var end int64 // from DataStart
	for i, s := range specs {
		reason := s.check()
		if _, dup := seen[s.Name]; dup {
			reason = "the name occurs twice"
		}
		if reason == "" && end+s.Bytes() < end {
			reason = "the model's size overflows"
		}
		if reason != "" {
			return nil, fault.New(op, fault.Invalid, "tensor %q %s %v: %s", s.Name, s.DType, s.Shape, reason)
		}
		seen[s.Name] = struct{}{}
		l.Entries[i] = Entry{s, end}
		end += s.Bytes()
	}
	l.header = encodeHeader(l.Entries, metadata)
	if len(l.header)-8 > maxHeader {
		return nil, fault.New(op, fault.Invalid, "the header of %d tensors takes %d bytes, limit %d", len(specs), len(l.header), maxHeader)
	}
	l.DataStart = int64(len(l.header))
	for i := range l.Entries {
		l.Entries[i].Offset += l.DataStart
	}
	if end+l.DataStart < end {
		return nil, fault.New(op, fault.Invalid, "the model's size overflows")
	}
	return l, nil
}

// Size returns the bytes of the whole file.
func (l *Layout) Size() int64 {
	if len(l.Entries) == 0 {
		return l.DataStart
	}
	last := l.Entries[len(l.Entries)-1]
	return last.Offset + last.Bytes()
}

// Specs returns what the tensors are, in order.
func (l *Layout) Specs() []Spec {
	specs := make([]Spec, len(l.Entries))
	for i, e := range l.Entries {
		specs[i] = e.Spec
	}
	return specs
}

// WriteHeader writes the first DataStart bytes of the file; the values follow,
// in the order of Entries. A layout from ReadLayout writes what it read.
func (l *Layout) WriteHeader(w io.Writer) error {
	if _, err := w.Write(l.header); err != nil {
		return writeFailed("header", err)
	}
	return nil
}

// encodeHeader returns length, JSON and padding, for entries whose offsets
// count from the data's start. Metadata, if any, come first, by ascending keys.
func encodeHeader(entries []Entry, metadata map[string]string) []byte {
	b := bytes.NewBuffer(make([]byte, 8, 8+96*len(entries)+dataAlign))
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	put := func(v any) { // cannot fail: strings, maps of them, and integers
		_ = enc.Encode(v)
		b.Truncate(b.Len() - 1) // the encoder ends each value with a newline
	}
	b.WriteByte('{')
	if len(metadata) > 0 {
		put(metadataKey)
		b.WriteByte(':')
		put(metadata)
	}
	for i, e := range entries {
		if i > 0 || len(metadata) > 0 {
			b.WriteByte(',')
		}
		shape := e.Shape
		if shape == nil {
			shape = []int64{} // not null
		}
		put(e.Name)
		b.WriteString(`:{"dtype":"` + e.DType.String() + `","shape":`)
		put(shape)
		b.WriteString(`,"data_offsets":`)
		put([2]int64{e.Offset, e.Offset + e.Bytes()})
		b.WriteByte('}')
	}
	b.WriteByte('}')
	for b.Len()%dataAlign != 0 {
		b.WriteByte(' ')
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes()
}
