package cluster

import (
	"encoding/binary"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxFrame is the most that a frame holds, in bytes.
const maxFrame = 64 << 10

// kind says what is in a frame on a link.
type kind uint8

const (
	packetFrame  kind = 1 // of the gossip
	beatFrame    kind = 2 // messages.Beat
	replyFrame   kind = 3 // messages.BeatReply, the only one that comes back
	goodbyeFrame kind = 4 // messages.Goodbye
)

// The first byte of a gossip connection.
const (
	opensLink   = 'l' // frames follow
	opensStream = 's' // the gossip's own
)

// frame returns what goes over a link: kind, length, body.
func frame(k kind, body []byte) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(k)<<24|uint32(len(body)))
	return append(out, body...)
}

// readFrame reads one. The buffer is used if it is long enough.
func readFrame(r io.Reader, buffer []byte) (kind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	word := binary.BigEndian.Uint32(head[:])
	k, n := kind(word>>24), int(word&0xffffff)
	if k < packetFrame || k > goodbyeFrame || n > maxFrame {
		return 0, nil, fault.New("cluster.frame", fault.Corrupt, "a frame of kind %d with %d bytes is none", k, n)
	}
	if cap(buffer) < n {
		buffer = make([]byte, n)
	}
	_, err := io.ReadFull(r, buffer[:n])
	return k, buffer[:n], err
}
