package endpoint

import (
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

const outputOp = "endpoint.output"

// output is a file that a function writes, until it is put to the job.
type output struct {
	path string
	file *os.File // nil before Create
	size int64

	written  int64 // through the writer
	passed   uint32
	attested *uint32
}

var _ functions.Output = (*output)(nil)

// Create implements functions.Output. Where the file system can, the room is
// taken now, so that a full disk is no fault of who writes.
func (o *output) Create(size int64) (io.Writer, error) {
	if o.file != nil || size < 0 {
		return nil, fault.New(outputOp, fault.Invalid, "an output of %d bytes, asked for twice or of no size", size)
	}
	file, err := os.OpenFile(o.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fault.New(outputOp, fault.Unavailable, "make an output: %w", err)
	}
	o.file, o.size = file, size
	if size > 0 {
		err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		for errors.Is(err, unix.EINTR) {
			err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		}
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, fault.New(outputOp, fault.Unavailable, "there is no room for an output of %d bytes in %s: %w", size, o.path, err)
	}
	return o, nil
}

// Write implements io.Writer, for what Create returns.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	o.passed = crc32.Update(o.passed, crc32.IEEETable, p[:n])
	o.written += int64(n)
	return n, err
}

// Path implements functions.Output.
func (o *output) Path() string {
	if o.file == nil {
		return ""
	}
	return o.path
}

// Attest implements functions.Output.
func (o *output) Attest(crc uint32) { o.attested = &crc }

// digest returns the digest of what was written, if that is what its writer meant
// to write. Rejected: it is not.
func (o *output) digest() (d remote.Digest, err error) {
	if o.file == nil {
		return d, fault.New(outputOp, fault.Rejected, "the function wrote no output where it says that it did")
	}
	h, crc := sha256.New(), crc32.NewIEEE()
	n, err := io.Copy(io.MultiWriter(h, crc), io.NewSectionReader(o.file, 0, o.size))
	info, failed := o.file.Stat()
	if err := errors.Join(err, failed); err != nil {
		return d, fault.New(outputOp, fault.Unavailable, "read an output: %w", err)
	}
	if n != o.size || info.Size() != o.size {
		return d, fault.New(outputOp, fault.Rejected, "the function wrote %d bytes where it had asked for %d", max(n, info.Size()), o.size)
	}
	want := o.passed
	switch {
	case o.attested != nil:
		want = *o.attested
	case o.written != o.size:
		return d, fault.New(outputOp, fault.Rejected, "the function does not say what it wrote")
	}
	if crc.Sum32() != want {
		return d, fault.New(outputOp, fault.Rejected, "the %d bytes of an output are damaged: their CRC-32 is %08x, that of what the function wrote %08x", o.size, crc.Sum32(), want)
	}
	return remote.Digest(h.Sum(nil)), nil
}

func (o *output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}
