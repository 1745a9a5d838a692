package functionstest

import (
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
)

// output is an Output with a file, as a scratch has.
type output struct {
	path string
	file *os.File
	size int64

	written  int64 // through the writer
	attested bool
	crc      uint32
}

func newOutput(t testing.TB) *output {
	t.Helper()
	o := &output{path: filepath.Join(t.TempDir(), "out.safetensors")}
	t.Cleanup(func() { _ = o.file.Close() }) // nil is fine
	return o
}

func (o *output) Create(size int64) (io.Writer, error) {
	var err error
	o.file, err = os.OpenFile(o.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	o.size = size
	return o, err
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	o.written += int64(n)
	return n, err
}

// Attest implements functions.Output.
func (o *output) Attest(crc uint32) { o.attested, o.crc = true, crc }

func (o *output) Path() string { return o.path }

// content returns what was written: as many bytes as were reserved, or none
// when nothing was.
func (o *output) content(t testing.TB) []byte {
	t.Helper()
	if o.file == nil {
		return nil
	}
	data, err := os.ReadFile(o.path)
	require.NoError(t, err)
	require.Len(t, data, int(o.size), "exactly what was reserved is written")
	require.True(t, o.attested || o.written == o.size, "what does not go through the writer is attested")
	if o.attested {
		require.Equal(t, crc32.ChecksumIEEE(data), o.crc, "the CRC-32 of the file is attested")
	}
	return data
}

func (o *output) input(t testing.TB) functions.Input {
	t.Helper()
	return functions.Input{R: o.file, Size: int64(len(o.content(t))), Path: o.path}
}

// fullOutput has no room.
type fullOutput struct{ err error }

func (o fullOutput) Create(int64) (io.Writer, error) { return nil, o.err }
func (o fullOutput) Path() string                    { return "" }
func (o fullOutput) Attest(uint32)                   {}
