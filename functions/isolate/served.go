package isolate

import (
	"bufio"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// served is an output in the child: a file that its parent has reserved.
type served struct {
	server   *server
	name     string
	file     *os.File // nil before Create
	buffer   *bufio.Writer
	crc      hash.Hash32
	attested *uint32
}

var _ functions.Output = (*served)(nil)

// Create implements functions.Output.
func (o *served) Create(size int64) (io.Writer, error) {
	if o.file != nil {
		return nil, fault.New("isolate.create", fault.Rejected, "the %s was to be written twice", o.name)
	}
	if err := o.server.say(fromChild{Create: &create{Output: o.name, Size: size}}); err != nil {
		return nil, fault.New("isolate.create", fault.Unavailable, "ask for a file: %w", err)
	}
	file, err := os.OpenFile(<-o.server.files, os.O_RDWR, 0)
	if err != nil {
		return nil, fault.New("isolate.create", fault.Unavailable, "open the file of the %s: %w", o.name, err)
	}
	const most = 256 << 10
	o.file, o.crc, o.buffer = file, crc32.NewIEEE(), bufio.NewWriterSize(file, int(min(max(size, 1), most)))
	return o, nil
}

// Write implements io.Writer. The CRC is of what is to be written, whatever
// becomes of that in the file.
func (o *served) Write(p []byte) (int, error) {
	_, _ = o.crc.Write(p) // a hash takes all
	return o.buffer.Write(p)
}

// Path implements functions.Output.
func (o *served) Path() string {
	if o.file == nil {
		return ""
	}
	return o.file.Name()
}

// Attest implements functions.Output.
func (o *served) Attest(crc uint32) { o.attested = &crc }

// close ends the writing and notes the CRC.
func (o *served) close(crcs map[string]uint32) error {
	if o.file == nil {
		return nil
	}
	err := o.buffer.Flush()
	if cerr := o.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fault.New("isolate.write", fault.Unavailable, "write the %s: %w", o.name, err)
	}
	crcs[o.name] = o.crc.Sum32()
	if o.attested != nil {
		crcs[o.name] = *o.attested
	}
	return nil
}
