package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// fileNames are the four files of a data set, in the order of its digest.
var fileNames = [4]string{"train-x.npy", "train-y.npy", "test-x.npy", "test-y.npy"}

// file is one of the four, as a manifest records it.
type file struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // lower-case hexadecimal
}

// contents is a data set that has been read: where its four arrays are, and
// what they are.
type contents struct {
	arrays   [4]selection
	manifest manifest // without name
}

// newContents computes the digests of the four arrays, in the order of
// fileNames.
func newContents(ctx context.Context, arrays []selection, warnings []string) (*contents, error) {
	c := &contents{arrays: [4]selection(arrays)}
	m := &c.manifest
	for i, array := range c.arrays {
		h := sha256.New()
		w := &stopper{ctx: ctx, Writer: h}
		if err := array.writeTo(w); err != nil {
			return nil, err
		}
		m.Files[i] = file{Bytes: w.n, SHA256: hex.EncodeToString(h.Sum(nil))}
	}
	m.Digest = digest(m.Files)
	x, y := c.arrays[0], c.arrays[1]
	m.Train, m.Test = x.count, c.arrays[2].count
	m.XShape, m.XType = append([]int64{}, x.sample...), x.typ.String()
	m.YShape, m.YType = append([]int64{}, y.sample...), y.typ.String()
	m.Warnings = warnings
	return c, nil
}

// digest is the SHA-256 over the SHA-256s (32 bytes each) of the four files,
// in the order of fileNames, in lower-case hexadecimal.
func digest(files [4]file) string {
	h := sha256.New()
	for _, f := range files {
		sum, _ := hex.DecodeString(f.SHA256) // ours, or checked by manifest.check
		_, _ = h.Write(sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// written writes an array that should be f. One that is not was changed while
// it was read: what needs no conversion is not copied first.
func (f file) written(w io.Writer, array selection) error {
	h := sha256.New()
	switch err := array.writeTo(io.MultiWriter(w, h)); {
	case err != nil && fault.KindOf(err) == fault.Unknown:
		return fault.New("dataset.import", fault.Unavailable, "read it again: %w", err)
	case err != nil:
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fault.New("dataset.import", fault.Unavailable, "the file was changed while it was read")
	}
	return nil
}
