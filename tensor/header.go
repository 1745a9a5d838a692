package tensor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/internal/fault"
)

// ReadLayout reads the header of a safetensors file of size bytes, and checks
// all of it: values that overlap, leave holes, lie outside the file or do not
// fit their shape, repeated names and keys, and anything but JSON are Corrupt.
// Types that we do not support are Invalid, naming the tensor. It reads the
// header only, whose length is at most 100 MB and never more than the file's.
func ReadLayout(r io.ReaderAt, size int64) (*Layout, error) {
	header, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	p := headerParser{dec: json.NewDecoder(bytes.NewReader(header[8:]))}
	p.dec.UseNumber()
	l := &Layout{DataStart: int64(len(header)), header: header}
	if err := p.parse(l); err != nil {
		return nil, err
	}
	if err := l.place(size); err != nil {
		return nil, err
	}
	return l, nil
}

// readHeader returns the first 8 + length bytes of the file.
func readHeader(r io.ReaderAt, size int64) ([]byte, error) {
	var start [8]byte
	if size < 8 {
		return nil, corrupt("%d bytes are too few for a safetensors file", size)
	}
	if err := readFull(r, start[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(start[:])
	if n > maxHeader {
		return nil, corrupt("header length %d is over the limit of %d: not a safetensors file?", n, maxHeader)
	}
	if int64(n) > size-8 {
		return nil, corrupt("truncated: header of %d bytes in a file of %d", n, size)
	}
	header := make([]byte, 8+n)
	if err := readFull(r, header, 0); err != nil {
		return nil, err
	}
	switch {
	case n == 0 || header[8] != '{':
		return nil, corrupt("the header does not begin with {: not a safetensors file?")
	case !utf8.Valid(header[8:]):
		return nil, corrupt("the header is not UTF-8")
	}
	return header, nil
}

// like is ReadLayout for a file whose header is probably that of a layout,
// which may be nil: then that layout is the file's, and nothing is parsed.
func (l *Layout) like(s Source) (*Layout, error) {
	if l != nil {
		if same, err := l.heads(s, make([]byte, len(l.header))); err != nil || same {
			return l, err
		}
	}
	return ReadLayout(s.R, s.Size)
}

// heads reports whether a file has the layout's size and header, of whose
// length buf is.
func (l *Layout) heads(s Source, buf []byte) (bool, error) {
	if s.Size != l.Size() {
		return false, nil
	}
	err := readFull(s.R, buf, 0)
	return bytes.Equal(buf, l.header), err
}

// place sorts the entries, whose offsets count from the data's start, checks
// that they cover the data exactly, and makes the offsets those of the file.
func (l *Layout) place(size int64) error {
	slices.SortStableFunc(l.Entries, func(a, b Entry) int { // empty tensors before what begins where they are
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes(), b.Bytes()))
	})
	var end int64
	for i := range l.Entries {
		e := &l.Entries[i]
		switch {
		case e.Offset > end:
			return corrupt("%d bytes before tensor %q belong to no tensor", e.Offset-end, e.Name)
		case e.Offset < end:
			return corrupt("tensor %q overlaps the one before it by %d bytes", e.Name, end-e.Offset)
		}
		end += e.Bytes()
		e.Offset += l.DataStart
		if end > size-l.DataStart {
			return corrupt("truncated: tensor %q ends at byte %d of a file of %d", e.Name, l.DataStart+end, size)
		}
	}
	if rest := size - l.DataStart - end; rest > 0 {
		return corrupt("%d bytes after the last tensor belong to none", rest)
	}
	return nil
}

// headerParser reads the header's JSON token by token, because decoding into
// Go values would accept repeated keys and other letter cases.
type headerParser struct {
	dec *json.Decoder
}

func (p *headerParser) parse(l *Layout) error {
	seen := map[string]struct{}{}
	if err := p.delim('{'); err != nil {
		return err
	}
	for p.dec.More() {
		name, err := p.text()
		if err != nil {
			return err
		}
		if _, dup := seen[name]; dup {
			return corrupt("the header names %q twice", name)
		}
		seen[name] = struct{}{}
		if name == metadataKey {
			if l.Metadata, err = p.metadata(); err != nil {
				return err
			}
			continue
		}
		e, err := p.entry(name)
		if err != nil {
			return err
		}
		l.Entries = append(l.Entries, e)
	}
	if err := p.delim('}'); err != nil {
		return err
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return corrupt("text after the header's end")
	}
	return nil
}

func (p *headerParser) metadata() (map[string]string, error) {
	m := map[string]string{}
	if err := p.delim('{'); err != nil {
		return nil, err
	}
	for p.dec.More() {
		k, err := p.text()
		if err != nil {
			return nil, err
		}
		if _, dup := m[k]; dup {
			return nil, corrupt("the metadata name %q twice", k)
		}
		if m[k], err = p.text(); err != nil {
			return nil, err
		}
	}
	return m, p.delim('}')
}

// entry reads one tensor's object. The offset returned counts from the data's
// start.
func (p *headerParser) entry(name string) (Entry, error) {
	e := Entry{Spec: Spec{Name: name}}
	var dtype string
	var span []int64
	seen := map[string]bool{}
	if err := p.delim('{'); err != nil {
		return e, err
	}
	for p.dec.More() {
		key, err := p.text()
		if err != nil {
			return e, err
		}
		if seen[key] {
			return e, corrupt("tensor %q: %q occurs twice", name, key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			dtype, err = p.text()
		case "shape":
			e.Shape, err = p.numbers()
		case "data_offsets":
			span, err = p.numbers()
		default:
			err = corrupt("unknown key %q", key)
		}
		if err != nil {
			return e, fault.New(readOp, fault.Corrupt, "tensor %q: %w", name, err)
		}
	}
	if err := p.delim('}'); err != nil {
		return e, err
	}
	if len(seen) != 3 || len(span) != 2 || span[0] > span[1] {
		return e, corrupt("tensor %q needs a dtype, a shape and data_offsets [begin, end]", name)
	}
	var err error
	if e.DType, err = ParseDType(dtype); err != nil {
		return e, fault.New(readOp, fault.Invalid, "tensor %q: %w", name, err)
	}
	if reason := e.check(); reason != "" {
		return e, corrupt("tensor %q %s %v: %s", name, e.DType, e.Shape, reason)
	}
	if have := span[1] - span[0]; have != e.Bytes() {
		return e, corrupt("tensor %q %s %v takes %d bytes, data_offsets give it %d", name, e.DType, e.Shape, e.Bytes(), have)
	}
	e.Offset = span[0]
	return e, nil
}

func (p *headerParser) delim(want json.Delim) error {
	t, err := p.dec.Token()
	if err != nil {
		return corrupt("header: %w", err)
	}
	if t != want {
		return corrupt("header: %v where %v belongs", show(t), want)
	}
	return nil
}

func (p *headerParser) text() (string, error) {
	t, err := p.dec.Token()
	if err != nil {
		return "", corrupt("header: %w", err)
	}
	s, ok := t.(string)
	if !ok {
		return "", corrupt("header: %v where a text belongs", show(t))
	}
	return s, nil
}

// numbers reads an array of non-negative integers; it is never nil.
func (p *headerParser) numbers() ([]int64, error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	out := []int64{}
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return nil, corrupt("header: %w", err)
		}
		num, ok := t.(json.Number)
		if !ok {
			return nil, corrupt("header: %v where a number belongs", show(t))
		}
		n, err := num.Int64()
		if err != nil || n < 0 {
			return nil, corrupt("header: %s is not a size", num)
		}
		out = append(out, n)
	}
	return out, p.delim(']')
}

// show returns a token for an error text, cut to a length a person reads.
func show(t json.Token) string { return fmt.Sprintf("%.40q", fmt.Sprint(t)) }
