package model

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

const exportOp = "model.export"

// Formats are the names of the formats that Export writes.
func Formats() []string { return []string{"safetensors", "npz"} }

// File is the safetensors file of a model, as it comes from a store or a server.
type File struct {
	Card        // of which ID, Bytes and SHA256 count
	Name string // for errors
	From io.Reader
}

// Export opens the file of a model and writes it as File.Export does.
func (c *Catalog) Export(ctx context.Context, m Model, format string, w io.Writer) (notes []string, err error) {
	r, err := c.Read(ctx, m)
	if err != nil {
		return nil, fault.New(exportOp, fault.KindOf(err), "model %s: %w", m.ID, err)
	}
	defer func() { _ = r.Close() }()
	return File{Card: m.Card, Name: m.Key, From: r}.Export(ctx, format, w)
}

// Export writes a model to w, in one pass and constant memory: as the
// safetensors file that it is, or as an .npz archive of its tensors by name,
// which numpy.load reads. numpy has no bfloat16: such tensors become float32,
// which has all their values, and a note says so.
//
// What was written counts only if the error is nil: the bytes are checked
// against the digest of the card at the end. Invalid: no such format, a name
// that an archive cannot hold. Corrupt: other bytes than the card's.
// Unavailable. An error of w keeps its kind if it has one.
func (f File) Export(ctx context.Context, format string, w io.Writer) (notes []string, err error) {
	sum := newSum()
	in := &source{ctx: ctx, r: io.TeeReader(f.From, sum)}
	switch format {
	case "safetensors":
		_, err = io.Copy(w, in)
	case "npz":
		var widened int
		if widened, err = writeNPZ(w, bufio.NewReaderSize(in, 1<<20), f.Bytes); widened > 0 {
			notes = append(notes, fmt.Sprintf("bfloat16 tensors are written as float32, which numpy has: %d", widened))
		}
	default:
		return nil, fault.New(exportOp, fault.Invalid, "there is no format %q", format)
	}
	if err == nil && (sum.n != f.Bytes || sum.hex() != f.SHA256) {
		err = fault.New(exportOp, fault.Corrupt, "%s has %d bytes with sha256 %.12s…, its card says %d with %.12s…", f.Name, sum.n, sum.hex(), f.Bytes, f.SHA256)
	}
	if err != nil {
		kind := fault.KindOf(err)
		if kind == fault.Unknown { // of w
			kind = fault.Unavailable
		}
		return nil, fault.New(exportOp, kind, "export model %s: %w", f.ID, err)
	}
	return notes, nil
}

// Layout reads from its start which tensors a model has. Corrupt, Unavailable.
func (f File) Layout(ctx context.Context) (*tensor.Layout, error) {
	layout, err := readLayout(&source{ctx: ctx, r: f.From}, f.Bytes)
	if err != nil {
		return nil, fault.New("model.layout", fault.KindOf(err), "model %s, %s: %w", f.ID, f.Name, err)
	}
	return layout, nil
}

// source reads an object of the store, until its context ends.
type source struct {
	ctx context.Context
	r   io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, fault.New(exportOp, fault.Unavailable, "stopped: %w", context.Cause(s.ctx))
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF && fault.KindOf(err) == fault.Unknown {
		err = fault.New(exportOp, fault.Unavailable, "read: %w", err)
	}
	return n, err
}
