package train

import (
	"crypto/sha256"
	"encoding/binary"
)

// purpose tells random draws apart that share all other coordinates.
type purpose string

const (
	drawOrder    purpose = "order"    // the epoch's permutation
	drawFunction purpose = "function" // whatever a function draws
	drawJitter   purpose = "jitter"   // of a retry's back-off
)

// derive returns the seed of a draw: the first eight bytes, little endian, of
// the SHA-256 of the job's seed, the purpose and the coordinates. It depends on
// nothing else, so a retry, another slot or another machine draws the same.
func derive(seed uint64, p purpose, epoch, round, function uint32) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	b = append(b, p...)
	b = append(b, 0)
	for _, c := range []uint32{epoch, round, function} {
		b = binary.LittleEndian.AppendUint32(b, c)
	}
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:8])
}
