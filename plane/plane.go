// Package plane moves the bytes of tensors, so that no mailbox has to: a
// message names a sealed file by its Ref, and whoever needs it opens it here.
//
// A Space holds what one process has in flight. Two exist, and pass one
// conformance suite (planetest): Scratch keeps files that other processes of
// this machine may map, Memory keeps slices for simulations.
//
// The life of a key: Create reserves the bytes, the writer fills the Draft
// (itself, or another process through its path), Seal checks the length and
// makes the key visible, Open reads, Remove forgets. Sealed bytes never change.
package plane

import (
	"context"
	"io"
)

// Ref names sealed bytes: the twin of messages.TensorRef.
type Ref struct {
	Node   string // whose plane holds them
	Key    string // see ValidKey
	Bytes  int64  // their length
	Digest uint64 // xxhash64 of the bytes; 0 = not computed
}

// Space holds sealed bytes by key. All methods are safe for concurrent use.
// After Close every other method but Usage, Remove and List returns an
// Unavailable error.
type Space interface {
	// Create reserves size bytes (0 or more) for key, so that writing them
	// cannot run out of room. Errors: Invalid (key or size), Conflict (the key
	// is sealed, or another draft of it is open), Unavailable (no room; the
	// text names the place and the remedy).
	Create(key string, size int64) (Draft, error)
	// Open returns the sealed bytes that ref names. Those of this node are there at
	// once, and their digest is not verified: that would read it all. A Space that
	// reaches others fetches theirs, which ends with ctx: see plane/remote. The blob
	// outlives ctx. Errors: Invalid (bad key, or a ref of a node that is out of
	// reach), NotFound, Corrupt (the length is not ref.Bytes), Unavailable.
	Open(ctx context.Context, ref Ref) (Blob, error)
	// Remove forgets sealed keys and frees their room; keys that are not there
	// are skipped, and open drafts are left to their owners. Blobs that are
	// open stay readable.
	Remove(keys ...string) error
	// List returns the sealed keys that start with prefix, ascending.
	List(prefix string) []string
	// Usage says what is held now, and the most that ever was.
	Usage() Usage
	// Close forgets everything. It may be called again.
	Close() error
}

// Usage is what a Space holds.
type Usage struct {
	Bytes int64 // reserved by open drafts and held by sealed keys
	Files int   // open drafts and sealed keys
	Peak  int64 // the highest Bytes so far
}

// Draft is bytes being written. It has one owner, who ends it with Seal or
// Abort (Abort after Seal does nothing, so it may be deferred); its methods are
// not safe for concurrent use.
type Draft interface {
	// Write appends. More than was reserved is an Invalid error.
	io.Writer
	// Path is the file to write when another process does it, "" when there is
	// none. That process opens it without truncating (truncation would give
	// the reservation back) and writes exactly the reserved length. One that
	// maps the file sets its length first; the length then says nothing about
	// what was written, and only that writer's word does.
	Path() string
	// Seal checks that exactly the reserved length was written and makes the
	// key visible; the bytes never change again. The ref carries a digest when
	// all bytes came through Write. Otherwise the draft is aborted, with an
	// Invalid error that names both lengths.
	Seal() (Ref, error)
	// Abort gives the room back.
	Abort() error
}

// Blob is sealed bytes, open for reading. ReadAt is safe for concurrent use
// and goes on working when the key is removed meanwhile.
type Blob interface {
	io.ReaderAt
	// Size is the length in bytes.
	Size() int64
	// Path is the file for other processes of this machine, "" when there is
	// none. It is valid until the key is removed.
	Path() string
	Close() error
}
