package dataset

import (
	"bytes"
	"context"
	"maps"
	"slices"
)

// Parse reads a file's bytes as Open would, without a file or a store: the
// four .npy files that it becomes, in the order of their digest.
func Parse(format string, content []byte, opts Options) (Info, [4][]byte, error) {
	opts.TestShare = defaultTestShare
	return written(parse(context.Background(), input{name: "d" + format, r: bytes.NewReader(content), size: int64(len(content))},
		format, opts, newMemory))
}

// ParseFolder is Parse for the files of a folder, by name.
func ParseFolder(files map[string][]byte) (Info, [4][]byte, error) {
	found, err := pick(slices.Collect(maps.Keys(files)))
	if err != nil {
		return Info{}, [4][]byte{}, err
	}
	open := func(name string) (input, error) {
		return input{name: name, r: bytes.NewReader(files[name]), size: int64(len(files[name]))}, nil
	}
	return written(parseFolder(context.Background(), found, open, Options{TestShare: defaultTestShare}, newMemory))
}

func newMemory() (spool, error) { return &memory{}, nil }

func written(c *contents, err error) (Info, [4][]byte, error) {
	if err != nil {
		return Info{}, [4][]byte{}, err
	}
	var files [4][]byte
	for i, array := range c.arrays {
		var b bytes.Buffer
		if err := c.manifest.Files[i].written(&b, array); err != nil {
			return Info{}, [4][]byte{}, err
		}
		files[i] = b.Bytes()
	}
	return c.manifest.info(), files, nil
}
