package actorkit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-ml/troupe/messages"
)

const (
	ourMessages = "troupe.messages." // what may come in pieces
	maxPartial  = 64                 // messages that are not all there
)

// joiner puts messages together of which pieces come, for all actors of one Props.
// What it keeps is bounded: a message whose other pieces do not come goes as others
// do.
type joiner struct {
	limit int // bytes of all that is kept

	mu      sync.Mutex // guards partial, kept
	partial []*partial // the one that got a piece last is the last
	kept    int        // their bytes
}

// partial is a message of which pieces are missing.
type partial struct {
	name    partialName
	pieces  [][]byte // nil: missing
	missing int
	bytes   int
}

// partialName tells apart the messages of which pieces come.
type partialName struct {
	to, kind string
	digest   uint64
	count    uint32
}

// take takes a piece in for an actor, and returns the message that it completes;
// nil: none yet.
func (j *joiner) take(to string, p *messages.Piece) (proto.Message, error) {
	if p.GetCount() == 0 || p.GetCount() > maxPieces || p.GetIndex() >= p.GetCount() {
		return nil, fmt.Errorf("piece %d of %d", p.GetIndex(), p.GetCount())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.find(partialName{to, p.GetType(), p.GetDigest(), p.GetCount()})
	if m.pieces[p.GetIndex()] == nil {
		m.pieces[p.GetIndex()] = append([]byte{}, p.GetData()...)
		m.bytes += len(p.GetData())
		j.kept += len(p.GetData())
		m.missing--
	}
	if m.missing > 0 {
		for j.kept > j.limit || len(j.partial) > maxPartial {
			j.drop(j.partial[0])
		}
		return nil, nil
	}
	j.drop(m)
	return whole(m)
}

// find returns what there is of a message, as the last.
func (j *joiner) find(name partialName) *partial {
	m := &partial{name: name, pieces: make([][]byte, name.count), missing: int(name.count)}
	if i := slices.IndexFunc(j.partial, func(m *partial) bool { return m.name == name }); i >= 0 {
		m = j.partial[i]
		j.partial = slices.Delete(j.partial, i, i+1)
	}
	j.partial = append(j.partial, m)
	return m
}

func (j *joiner) drop(m *partial) {
	j.partial = slices.DeleteFunc(j.partial, func(other *partial) bool { return other == m })
	j.kept -= m.bytes
}

// whole reads a message all of whose pieces are there.
func whole(m *partial) (proto.Message, error) {
	data := bytes.Join(m.pieces, nil)
	if got := xxhash.Sum64(data); got != m.name.digest {
		return nil, fmt.Errorf("digest %016x instead of %016x", got, m.name.digest)
	}
	if !strings.HasPrefix(m.name.kind, ourMessages) {
		return nil, fmt.Errorf("no node may send a %q", m.name.kind)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(m.name.kind))
	if err != nil {
		return nil, fmt.Errorf("this version knows no %q", m.name.kind)
	}
	out := kind.New().Interface()
	if err := proto.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if _, again := out.(*messages.Piece); again {
		return nil, fmt.Errorf("no node may send a piece in pieces")
	}
	return out, nil
}
