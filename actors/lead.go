package actors

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

// leadBeat is how often a server says that it lives.
const leadBeat = 2 * time.Second

// ownerSilence is for how long an owner that gives no sign of life is waited
// for: one that lives gives several in that time.
const ownerSilence = 10 * time.Second

// lookGap is how often an owner is looked at while it may be gone, and quietFor
// for how long without telling anybody: most are seen to live, or to have died,
// by then.
const (
	lookGap  = 250 * time.Millisecond
	quietFor = time.Second
)

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// onceGone takes what may have another owner. One that gives no sign of life for
// ownerSilence counts as gone; waits is told of it once, if that takes long. Conflict: it lives.
func onceGone[Claimed any, Sighting comparable](
	ctx context.Context, c *Company, take func(stale Sighting) (Claimed, Sighting, error), waits func(Sighting),
) (Claimed, error) {
	var seen, none Sighting
	var since time.Time
	told := false
	for {
		stale := none
		if !since.IsZero() && c.rim.Now().Sub(since) >= ownerSilence {
			stale = seen
		}
		claimed, now, err := take(stale)
		switch {
		case fault.KindOf(err) != fault.Conflict || now == none:
			return claimed, err
		case since.IsZero():
			seen, since = now, c.rim.Now()
		case now != seen:
			return claimed, err
		case !told && c.rim.Now().Sub(since) >= quietFor:
			told = true
			waits(seen)
		}
		if err := pause(ctx, lookGap); err != nil {
			return claimed, fault.New("actors.own", fault.Unavailable, "%w", err)
		}
	}
}

// lead makes this server the only one of its store, as soon as no other is, and
// keeps it that, and returns the number of its reign. Conflict: another server is,
// naming it.
func (c *Company) lead(ctx context.Context, register *claim.Register, owner claim.Owner) (term uint64, err error) {
	if _, err := store.ID(ctx, c.store); err != nil {
		return 0, err
	}
	own, err := onceGone(ctx, c, func(stale claim.Sighting) (*claim.Claim, claim.Sighting, error) {
		return register.Lead(ctx, owner, stale)
	}, func(seen claim.Sighting) {
		c.warn(fmt.Sprintf("waiting up to %v to see whether the store's last server, %s, lives", ownerSilence, seen.Who()))
	})
	if err != nil {
		return 0, err
	}
	c.closers = append(c.closers, own.Release)
	c.background.Go(func() { c.beat(own) })
	return own.Number(), nil
}

// signs gives the signs of life of what is owned and does not give them itself
// yet, until the returned function is called.
func (c *Company) signs(beat func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := beat(ctx); fault.KindOf(err) == fault.Conflict {
				return // who runs it will be told
			}
			if pause(ctx, leadBeat) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// beat ends the company once another server has taken the store over.
func (c *Company) beat(own *claim.Claim) {
	var told actorkit.Sparse
	for pause(c.ctx, leadBeat) == nil {
		switch err := own.Beat(c.ctx); {
		case fault.KindOf(err) == fault.Conflict:
			c.end(fault.New("actors.lead", fault.Conflict, "this server gave no sign of life for too long: %w", err))
			return
		case err == nil:
			told = actorkit.Sparse{}
		case c.ctx.Err() == nil && told.Due(c.rim.Now()):
			c.log.Warn("the store does not take this server's sign of life", zap.Error(err))
		}
	}
}

// Done is closed once the company has ended, by Close or by itself; Err then
// says why.
func (c *Company) Done() <-chan struct{} { return c.ctx.Done() }

// Err says why the company has ended by itself, nil where it has not.
func (c *Company) Err() error {
	if err := context.Cause(c.ctx); err != error(errClosed) {
		return err
	}
	return nil
}
