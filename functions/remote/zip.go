package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
)

// The parts of a zip file (APPNOTE 6.3), with the 64-bit sizes throughout: one
// form, whatever the size.
const (
	zipLocal      = 0x04034b50
	zipDescriptor = 0x08074b50
	zipCentral    = 0x02014b50
	zipEnd64      = 0x06064b50
	zipLocator64  = 0x07064b50
	zipEnd        = 0x06054b50

	zipVersion = 45     // that knows 64-bit sizes
	zipLate    = 1 << 3 // the checksum follows the data
	zip1980    = 0x0021 // 1 January, the first day that there is: files with one content are one
	zipMax32   = 0xffffffff
	zipMax16   = 0xffff
)

// builder lays a zip file out of stored members. Their checksums follow them, so
// that one pass over the data gives those and the digest of the whole.
type builder struct {
	parts   []part
	at      int64 // the end of parts
	whole   hash.Hash
	central []byte // the directory so far
	members uint64
}

func newBuilder() *builder { return &builder{whole: sha256.New()} }

func (b *builder) digest() Digest { return Digest(b.whole.Sum(nil)) }

// member adds a file: an npy header and rows, which are read.
func (b *builder) member(name string, r *rows) error {
	start, size := uint64(b.at), uint64(len(r.header))+uint64(r.size)
	local := le(nil, uint32(zipLocal), uint16(zipVersion), uint16(zipLate), uint16(0), uint16(0), uint16(zip1980),
		uint32(0), uint32(zipMax32), uint32(zipMax32), uint16(len(name)), uint16(20))
	local = append(local, name...)
	b.bytes(le(local, uint16(1), uint16(16), uint64(0), uint64(0))) // sizes: they follow, too
	crc := crc32.NewIEEE()
	_, _ = crc.Write(r.header)
	b.bytes(r.header)
	section := io.NewSectionReader(r, 0, r.size)
	if _, err := io.CopyBuffer(io.MultiWriter(b.whole, crc), struct{ io.Reader }{section}, make([]byte, window)); err != nil {
		return err
	}
	b.add(r.size, r)
	b.bytes(le(nil, uint32(zipDescriptor), crc.Sum32(), size, size))

	b.members++
	b.central = le(b.central, uint32(zipCentral), uint16(zipVersion), uint16(zipVersion), uint16(zipLate), uint16(0), uint16(0), uint16(zip1980),
		crc.Sum32(), uint32(zipMax32), uint32(zipMax32), uint16(len(name)), uint16(28), uint16(0), uint16(0), uint16(0), uint32(0), uint32(zipMax32))
	b.central = append(b.central, name...)
	b.central = le(b.central, uint16(1), uint16(24), size, size, start)
	return nil
}

// directory ends the file.
func (b *builder) directory() {
	start, size := uint64(b.at), uint64(len(b.central))
	end := le(bytes.Clone(b.central), uint32(zipEnd64), uint64(44), uint16(zipVersion), uint16(zipVersion), uint32(0), uint32(0),
		b.members, b.members, size, start)
	end = le(end, uint32(zipLocator64), uint32(0), start+size, uint32(1))
	end = le(end, uint32(zipEnd), uint16(zipMax16), uint16(zipMax16), uint16(zipMax16), uint16(zipMax16), uint32(zipMax32), uint32(zipMax32), uint16(0))
	b.bytes(end)
}

func (b *builder) bytes(p []byte) {
	_, _ = b.whole.Write(p) // a hash takes all
	b.add(int64(len(p)), bytes.NewReader(p))
}

func (b *builder) add(size int64, r io.ReaderAt) {
	b.parts = append(b.parts, part{at: b.at, size: size, r: r})
	b.at += size
}

// le appends numbers, little endian.
func le(to []byte, numbers ...any) []byte {
	for _, n := range numbers {
		to, _ = binary.Append(to, binary.LittleEndian, n) // they have fixed sizes
	}
	return to
}
