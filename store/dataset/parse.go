package dataset

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

// input is a file that was opened to be read.
type input struct {
	name string // its base
	r    io.ReaderAt
	size int64 // bytes
}

func (in input) open() io.Reader { return io.NewSectionReader(in.r, 0, in.size) }

// parse reads a file of one of the formats. The contents lie in spools.
func parse(ctx context.Context, in input, format string, opts Options, newSpool func() (spool, error)) (*contents, error) {
	switch format {
	case ".npy":
		return nil, fault.New(importOp, fault.Invalid, "one array is no data set: put x_train.npy and y_train.npy in a folder, or both in an .npz")
	case ".npz":
		train, test, err := readNPZ(ctx, in.r, in.size, newSpool)
		if err != nil {
			return nil, err
		}
		return checked(ctx, train, test, opts)
	}
	text, err := gunzip(in.open())
	if err != nil {
		return nil, err
	}
	p, nonFinite, err := readCSV(ctx, text, opts.Label, newSpool)
	if err != nil {
		return nil, err
	}
	return finish(ctx, p, nil, nonFinite, opts)
}

// parseFolder reads the arrays of a folder, which pick has found. What needs
// no conversion stays where it is, the rest lies in spools.
func parseFolder(ctx context.Context, found roles, open func(name string) (input, error), opts Options, newSpool func() (spool, error)) (*contents, error) {
	var arrays [len(fileNames)]rows
	for i, name := range found.names {
		if name == "" {
			continue // the test part
		}
		in, err := open(name)
		if err != nil {
			return nil, err
		}
		read := readNPY
		if found.idx {
			read = readIDX
		}
		if arrays[i], err = read(ctx, in, newSpool); err != nil {
			return nil, fault.New(importOp, fault.KindOf(err), "%s: %w", name, err)
		}
	}
	train, test := pair{arrays[0], arrays[1]}, &pair{arrays[2], arrays[3]}
	if found.names[2] == "" {
		test = nil
	}
	return checked(ctx, train, test, opts)
}

// checked refuses parts that cannot be trained on, and finishes the others.
func checked(ctx context.Context, train pair, test *pair, opts Options) (*contents, error) {
	nonFinite, err := checkPair("train", train)
	if err != nil {
		return nil, err
	}
	if test != nil {
		n, err := checkPair("test", *test)
		if err != nil {
			return nil, err
		}
		nonFinite += n
		train.y, test.y = agree(train.y, test.y)
		if err := checkAlike(train, *test); err != nil {
			return nil, err
		}
	}
	return finish(ctx, train, test, nonFinite, opts)
}

// checkPair refuses a part that cannot be trained on, and counts the NaNs and
// infinities in x.
func checkPair(part string, p pair) (nonFinite int64, err error) {
	if p.x.n != p.y.n {
		return 0, fault.New(importOp, fault.Invalid, "x_%s has %d samples, y_%s has %d labels", part, p.x.n, part, p.y.n)
	}
	_, first, err := p.y.nonFinite()
	if err != nil {
		return 0, fault.New(importOp, fault.Unavailable, "y_%s: %w", part, err)
	}
	if first >= 0 {
		return 0, fault.New(importOp, fault.Invalid, "y_%s: the label of sample %d is NaN or infinite", part, first)
	}
	if nonFinite, _, err = p.x.nonFinite(); err != nil {
		return 0, fault.New(importOp, fault.Unavailable, "x_%s: %w", part, err)
	}
	return nonFinite, nil
}

// checkAlike refuses a test part of other types or shapes than the training part's.
func checkAlike(train, test pair) error {
	for _, c := range []struct {
		name        string
		train, test rows
	}{{"x", train.x, test.x}, {"y", train.y, test.y}} {
		if c.train.typ != c.test.typ || !slices.Equal(c.train.sample, c.test.sample) {
			return fault.New(importOp, fault.Invalid, "samples of %s_train are %s %v, those of %s_test %s %v",
				c.name, c.train.typ, c.train.sample, c.name, c.test.typ, c.test.sample)
		}
	}
	return nil
}

// finish splits where there is no test part, and computes the digests.
func finish(ctx context.Context, p pair, test *pair, nonFinite int64, opts Options) (*contents, error) {
	var warnings []string
	if nonFinite > 0 {
		warnings = append(warnings, fmt.Sprintf("x has %d values that are NaN or infinite", nonFinite))
	}
	if test != nil {
		return newContents(ctx, []selection{all(p.x), all(p.y), all(test.x), all(test.y)}, warnings)
	}
	if p.x.n == 1 {
		warnings = append(warnings, "there is one sample: nothing is left to test with")
	}
	tr, te := split(p, opts.TestShare, opts.Seed)
	return newContents(ctx, slices.Concat(tr[:], te[:]), warnings)
}
