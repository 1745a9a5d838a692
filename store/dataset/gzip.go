package dataset

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

const gzipOp = "dataset.gunzip"

// gunzip returns what r holds, unpacked if it is gzipped.
func gunzip(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	zr, err := gzip.NewReader(in)
	if err != nil {
		return nil, gzipFault(err)
	}
	return zr, nil
}

// gzipFault gives an error of a reader that gunzip returned its kind.
func gzipFault(err error) error {
	_, broken := errors.AsType[flate.CorruptInputError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault.New(gzipOp, fault.Corrupt, "truncated: the gzip stream ends too early")
	case broken, errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fault.New(gzipOp, fault.Corrupt, "broken gzip stream: %w", err)
	}
	if fault.KindOf(err) != fault.Unknown {
		return err
	}
	return fault.New(gzipOp, fault.Unavailable, "read: %w", err)
}
