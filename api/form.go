package api

import (
	"bytes"
	"io"
	"mime/multipart"
)

// keptTail is more than what a multipart reader reads ahead of a part.
const keptTail = 16 << 10

// form is a multipart form that knows whether it has come to its end: the reader
// of the standard library takes one for whole that was cut off between two lines.
type form struct {
	*multipart.Reader
	from *tail
	end  []byte
}

func newForm(body io.Reader, boundary string) *form {
	from := &tail{r: body}
	return &form{Reader: multipart.NewReader(from, boundary), from: from, end: []byte("--" + boundary + "--")}
}

// next returns the next part, as it was sent; io.EOF after the last.
func (f *form) next() (*multipart.Part, error) {
	part, err := f.NextRawPart()
	if err == io.EOF && !bytes.Contains(f.from.kept, f.end) {
		return nil, io.ErrUnexpectedEOF
	}
	return part, err
}

// tail keeps the end of what was read.
type tail struct {
	r    io.Reader
	kept []byte // at most keptTail
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.kept = append(t.kept, p[:n]...)
	if len(t.kept) > keptTail {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-keptTail:]...)
	}
	return n, err
}
