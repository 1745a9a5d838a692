package host

import (
	"cmp"
	"context"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// opForm is the Op of a rejection for what an answer is, not for its values: a
// smaller learning rate does not mend it. The job tells its user so.
const opForm = "host.form"

// output is a state dict that a runtime writes to the plane.
type output struct {
	space plane.Space
	key   string // of the draft
	what  string // for errors: "model"
	draft plane.Draft
	check *tensor.Checker
	keys  []string // that may be sealed

	// What was to be written, said by who wrote it: by the process that wrote the
	// file, or else by what went through Write.
	attested *uint32
	passed   hash.Hash32
	written  int64

	// What chaos does.
	full   bool                               // there is no room
	spoil  func(plane.Ref) (plane.Ref, error) // as if the function had written it; nil: nothing
	damage func(plane.Ref) (plane.Ref, error) // after it was written; nil: nothing
}

var _ functions.Output = (*output)(nil)

func (x *execution) output(part string, check *tensor.Checker) *output {
	o := &output{space: x.executor.Space, key: x.key(part), what: part, check: check, passed: crc32.NewIEEE()}
	x.outputs = append(x.outputs, o)
	return o
}

// Create implements functions.Output.
func (o *output) Create(size int64) (io.Writer, error) {
	if o.draft != nil {
		return nil, fault.New(opForm, fault.Rejected, "the %s was to be written twice", o.what)
	}
	if o.full {
		return nil, fault.New("host.output", fault.Unavailable, "no room for the %s, %d bytes: %w", o.what, size, fullDisk())
	}
	draft, err := o.space.Create(o.key, size)
	if err != nil {
		return nil, err
	}
	o.draft = draft
	return o, nil
}

// fullDisk writes to a device that is always full, and returns what the system
// says to it.
func fullDisk() error {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write([]byte{0})
		_ = f.Close()
	}
	return cmp.Or(err, error(unix.ENOSPC))
}

// Write implements io.Writer, for what Create returns.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.draft.Write(p)
	_, _ = o.passed.Write(p[:n]) // a hash takes all
	o.written += int64(n)
	return n, err
}

// Path implements functions.Output.
func (o *output) Path() string {
	if o.draft == nil {
		return ""
	}
	return o.draft.Path()
}

// Attest implements functions.Output.
func (o *output) Attest(crc uint32) { o.attested = &crc }

// seal ends the writing and checks what was written: that it is what its writer
// meant to write, and against the reference model, or, where there is none (Size
// 0), for being finite.
func (o *output) seal(ctx context.Context, reference tensor.Source) (*messages.TensorRef, error) {
	if o.draft == nil {
		return nil, fault.New(opForm, fault.Rejected, "the function wrote no %s", o.what)
	}
	ref, err := o.draft.Seal()
	if fault.KindOf(err) == fault.Invalid { // not as long as the runtime said
		return nil, fault.New(opForm, fault.Rejected, "%s: %w", o.what, err)
	}
	if err != nil {
		return nil, err
	}
	o.keys = append(o.keys, ref.Key)
	if ref, err = o.broken(ref); err != nil {
		return nil, err
	}
	blob, err := o.space.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	if ref.Digest, err = o.verify(blob); err != nil {
		return nil, err
	}
	written := tensor.Source{R: blob, Size: blob.Size()}
	if reference.Size == 0 {
		reference = written
	}
	if err := o.check.Check(reference, written); err != nil {
		op := "host.output"
		if e, is := errors.AsType[*fault.Error](err); is && e.Op == tensor.FormOp {
			op = opForm
		}
		return nil, fault.New(op, fault.KindOf(err), "%s: %w", o.what, err)
	}
	return wire.TensorRef(ref), nil
}

// broken does to sealed bytes what chaos asks for, and returns what lies there
// then.
func (o *output) broken(ref plane.Ref) (plane.Ref, error) {
	for _, how := range []func(plane.Ref) (plane.Ref, error){o.spoil, o.damage} {
		if how == nil {
			continue
		}
		var err error
		if ref, err = how(ref); err != nil {
			return ref, err
		}
		o.keys = append(o.keys, ref.Key)
	}
	return ref, nil
}

// verify compares the bytes that lie in the space with what their writer says
// they are. Values may be damaged and still make a sound model, which nobody
// would notice in a merge. Rejected: they differ, or nobody says. The digest is for
// those who fetch them from other nodes.
func (o *output) verify(blob plane.Blob) (digest uint64, err error) {
	want, said := o.passed.Sum32(), o.written == blob.Size()
	if o.attested != nil {
		want, said = *o.attested, true
	}
	if !said && o.spoil == nil {
		return 0, fault.New(opForm, fault.Rejected, "%s: its writer does not say what it wrote", o.what)
	}
	got, sum := crc32.NewIEEE(), xxhash.New()
	const most = 256 << 10
	buffer := make([]byte, min(most, blob.Size()+1))
	if _, err := io.CopyBuffer(io.MultiWriter(got, sum), io.NewSectionReader(blob, 0, blob.Size()), buffer); err != nil {
		return 0, fault.New("host.output", fault.Unavailable, "read the %s: %w", o.what, err)
	}
	if got.Sum32() != want && o.spoil == nil { // else the function is to have written that
		return 0, fault.New(opForm, fault.Rejected,
			"%s: its %d bytes are damaged: their CRC-32 is %08x, that of what the function wrote %08x", o.what, blob.Size(), got.Sum32(), want)
	}
	return sum.Sum64(), nil
}

// discard gives back whatever was written.
func (x *execution) discard() error {
	var errs []error
	for _, o := range x.outputs {
		if o.draft != nil {
			errs = append(errs, o.draft.Abort(), o.space.Remove(o.keys...))
		}
	}
	return errors.Join(errs...)
}
