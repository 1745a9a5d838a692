package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Digits is the name of the built-in data set: 1,437 handwritten digits to
// train and 360 to test, x [n, 64] float32 (8 x 8 grey values 0..16), y [n]
// int64 (0..9). Its source and licence are in data/README.md.
const Digits = "digits"

//go:embed data/digits.csv.gz
var digitsCSV []byte

// loadDigits reads the built-in data set and splits it as any CSV file is by
// default. It lies in memory, about 1 MB.
func loadDigits() (*contents, error) {
	zr, err := gzip.NewReader(bytes.NewReader(digitsCSV))
	if err != nil {
		return nil, fault.New("dataset.digits", fault.Corrupt, "built-in data set: %w", err)
	}
	p, _, err := readCSV(context.Background(), zr, "", func() (spool, error) { return &memory{}, nil })
	if err != nil {
		return nil, fault.New("dataset.digits", fault.Corrupt, "built-in data set: %w", err)
	}
	train, test := split(p, defaultTestShare, 0)
	return newContents(context.Background(), slices.Concat(train[:], test[:]), nil)
}

// memory is a spool in memory.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m.b).ReadAt(p, off) }
