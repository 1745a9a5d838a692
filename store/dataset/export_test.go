package dataset

import (
	"bytes"
	"context"
)

// Parse reads a file's bytes as Open would, without a file or a store: the
// four .npy files that it becomes, in the order of their digest.
func Parse(format string, content []byte) (Info, [4][]byte, error) {
	ctx := context.Background()
	c, err := parse(ctx, bytes.NewReader(content), int64(len(content)), format, Options{TestShare: defaultTestShare},
		func() (spool, error) { return &memory{}, nil })
	if err != nil {
		return Info{}, [4][]byte{}, err
	}
	var files [4][]byte
	for i, array := range c.arrays {
		var b bytes.Buffer
		if err := array.writeTo(&b); err != nil {
			return Info{}, [4][]byte{}, err
		}
		files[i] = b.Bytes()
	}
	return c.manifest.info(), files, nil
}
