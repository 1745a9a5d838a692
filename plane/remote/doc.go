// Package remote reaches the bytes of other nodes: Handler serves the sealed keys
// of a node's plane.Space, Space is one that opens refs of other nodes too, by
// fetching what they name into the node's own space, once for all who want it.
//
// A copy lies under plane.CopyKey, counts as any other key of the space, and goes
// when that is removed, or when room is wanted and nobody reads it.
package remote

import (
	"sync"
	"time"
)

const (
	// silence is how long a node may say nothing before another connection is
	// tried, patience how long until it is given up.
	silence  = 10 * time.Second
	patience = 20 * time.Second
	window   = 256 << 10 // bytes of a fetch in memory
)

// windows are lent to who moves bytes. A model of a megabyte would else cost half
// of one in windows, each time. The zero value is ready.
type windows struct{ pool sync.Pool }

func (w *windows) get() *[]byte {
	if b, ok := w.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, window)
	return &b
}

func (w *windows) put(b *[]byte) { w.pool.Put(b) }
