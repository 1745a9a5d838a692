package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// check reads an object of the store in full.
func (c *Cache) check(ctx context.Context, o Object) error { return c.read(ctx, o, io.Discard) }

// read verifies an object of the store, writing a copy to w.
func (c *Cache) read(ctx context.Context, o Object, w io.Writer) error {
	r, err := c.store.Get(ctx, o.Key, 0, -1)
	if err != nil {
		return fault.New(op, missing(err), "%w", err)
	}
	defer func() { _ = r.Close() }()
	if err := o.verify(w, until{ctx, r}); err != nil {
		return fault.New(op, cmp.Or(fault.KindOf(err), fault.Unavailable), "%s: %w", o.Key, err)
	}
	return nil
}

// verify reads what should be the object and compares length and digest. w gets a
// copy.
func (o Object) verify(w io.Writer, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), r)
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != o.Bytes || sum != o.SHA256 {
		return o.other(n, sum)
	}
	return nil
}

// other is the error about other bytes than the object's.
func (o Object) other(n int64, sum string) error {
	return fault.New(op, fault.Corrupt, "%s: %d bytes with sha256 %.12s…, want %d with %.12s…", o.Key, n, sum, o.Bytes, o.SHA256)
}

// until is a reader that stops when its context ends.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, stopped(u.ctx)
	}
	return u.Reader.Read(p)
}
