package dataset

import (
	"context"
	"crypto/rand"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Who gives a name its data set has the right to it for a moment, so that of two
// at the same time one comes after the other: whoever creates the next of
//
//	datasets/<name>/claims/<n>
//
// which says who that is. It is removed once the manifest is there. One that stays
// as it is for holdPatience is that of somebody who died.
const (
	claimsFolder = "claims"
	maxToken     = 1 << 10 // bytes
	holdPatience = 5 * time.Second
	holdGap      = 50 * time.Millisecond
)

// hold is the right to a name.
type hold struct {
	store  store.Store
	folder string // of claims
	n      uint64
	token  string
}

// take waits for the right to a name. Unavailable.
func take(ctx context.Context, s store.Store, name string) (*hold, error) {
	h := &hold{store: s, folder: path.Join(folder, name, claimsFolder) + "/", token: rand.Text()}
	var before string
	var since time.Time
	for {
		n, token, err := h.last(ctx)
		if err != nil {
			return nil, err
		}
		if token != before {
			before, since = token, time.Now()
		}
		if n == 0 || time.Since(since) >= holdPatience {
			h.n = n + 1
			err := s.PutIfAbsent(ctx, h.key(h.n), func(w io.Writer) error {
				_, err := io.WriteString(w, h.token)
				return err
			})
			if fault.KindOf(err) != fault.Conflict {
				return h, err
			}
			continue // somebody was quicker
		}
		select {
		case <-time.After(holdGap):
		case <-ctx.Done():
			return nil, fault.New(importOp, fault.Unavailable, "wait for the name %q, which somebody else is giving away: %w", name, ctx.Err())
		}
	}
}

func (h *hold) key(n uint64) string { return h.folder + strconv.FormatUint(n, 10) }

// last returns the highest claim that there is, and who says it, 0 for none.
func (h *hold) last(ctx context.Context) (n uint64, token string, err error) {
	for o, err := range h.store.List(ctx, h.folder) {
		if err != nil {
			return 0, "", fault.New(importOp, fault.KindOf(err), "who has the name: %w", err)
		}
		if i, err := strconv.ParseUint(strings.TrimPrefix(o.Key, h.folder), 10, 64); err == nil {
			n = max(n, i)
		}
	}
	if n == 0 {
		return 0, "", nil
	}
	b, err := store.Read(ctx, h.store, h.key(n), maxToken)
	if fault.KindOf(err) == fault.NotFound { // it was removed just now
		return n, "", nil
	}
	return n, string(b), err
}

// held returns a Conflict if another one has the right meanwhile.
func (h *hold) held(ctx context.Context) error {
	n, token, err := h.last(ctx)
	if err == nil && (n != h.n || token != h.token) {
		err = fault.New(importOp, fault.Conflict, "somebody else has given the name away meanwhile: try again")
	}
	return err
}

// release gives the right up, and removes what those who died have left of it.
func (h *hold) release(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for n := uint64(1); n <= h.n; n++ { // its own last: until then nobody else has it
		if n == h.n && h.held(ctx) != nil || h.store.Delete(ctx, h.key(n)) != nil {
			return // what stays is taken for one of the dead
		}
	}
}
