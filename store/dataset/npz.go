package dataset

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

const npzOp = "dataset.npz"

// readNPZ reads an archive of .npy files: x_train and y_train, and x_test and
// y_test unless test is nil on return. Each is unpacked into a spool of its
// own, and read as readNPY does.
//
// Invalid: an array missing, twice there or of a refused type. Corrupt: no
// archive, a member that is truncated or fails its checksum.
func readNPZ(ctx context.Context, r io.ReaderAt, size int64, newSpool func() (spool, error)) (train pair, test *pair, err error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return pair{}, nil, fault.New(npzOp, fault.Corrupt, "no .npz archive, or truncated: %w", err)
	}
	members, err := npzMembers(archive)
	if err != nil {
		return pair{}, nil, err
	}
	pairs := []*pair{&train}
	if members["x_test"] != nil {
		test = &pair{}
		pairs = append(pairs, test)
	}
	for i, part := range []string{"train", "test"}[:len(pairs)] {
		for axis, array := range []*rows{&pairs[i].x, &pairs[i].y} {
			name := []string{"x_", "y_"}[axis] + part
			if *array, err = readMember(ctx, members[name], newSpool); err != nil {
				return pair{}, nil, fault.New(npzOp, fault.KindOf(err), "%s: %w", name, err)
			}
		}
	}
	return train, test, nil
}

// npzMembers finds the arrays by name.
func npzMembers(archive *zip.Reader) (map[string]*zip.File, error) {
	members, names := map[string]*zip.File{}, []string{}
	for _, f := range archive.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		names = append(names, fmt.Sprintf("%.40q", name))
		if !ok {
			continue
		}
		if members[name] != nil {
			return nil, fault.New(npzOp, fault.Invalid, "%.40q is in the archive twice", name)
		}
		members[name] = f
	}
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	for _, name := range []string{"x_train", "y_train"} {
		if members[name] == nil {
			return nil, fault.New(npzOp, fault.Invalid, "no array %s in the archive, which has: %s", name, strings.Join(names, ", "))
		}
	}
	if (members["x_test"] == nil) != (members["y_test"] == nil) {
		return nil, fault.New(npzOp, fault.Invalid, "of x_test and y_test only one is in the archive")
	}
	return members, nil
}

// readMember unpacks one member and reads it.
func readMember(ctx context.Context, member *zip.File, newSpool func() (spool, error)) (rows, error) {
	packed, err := member.Open()
	if err != nil {
		return rows{}, zipFault(err)
	}
	defer func() { _ = packed.Close() }()
	raw, err := newSpool()
	if err != nil {
		return rows{}, err
	}
	// The library refuses a member that unpacks to more or less than it says.
	unpacked := &stopper{ctx: ctx, Writer: raw}
	if _, err := io.Copy(unpacked, packed); err != nil {
		return rows{}, zipFault(err)
	}
	return readNPY(ctx, input{name: member.Name, r: raw, size: unpacked.n}, newSpool)
}

// zipFault gives an error of the zip reader its kind.
func zipFault(err error) error {
	switch {
	case errors.Is(err, zip.ErrAlgorithm):
		return fault.New(npzOp, fault.Invalid, "packed in a way that is not supported: %w", err)
	case fault.KindOf(err) != fault.Unknown:
		return err
	}
	return fault.New(npzOp, fault.Corrupt, "cannot be unpacked: %w", err)
}

// stopper counts what passes and stops when its context ends.
type stopper struct {
	io.Writer
	ctx context.Context
	n   int64
}

func (s *stopper) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, fault.New("dataset.read", fault.Unavailable, "stopped: %w", err)
	}
	n, err := s.Writer.Write(p)
	s.n += int64(n)
	return n, err
}
