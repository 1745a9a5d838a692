package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// errStruck is what the request meets during which sabotage strikes.
var errStruck = errors.New("broken on purpose")

// moment is when in an attempt sabotage can strike: the exchange does not see
// batches, but it sees the function come and go.
type moment int

const (
	atFirst  moment = iota // the function's first request
	midModel               // half of the model has been put
	atLast                 // its results are there
)

// strike is what sabotage does to an attempt, at a moment or, when that does not
// come, at the next one. It breaks what is real here: the connections.
type strike struct {
	does functions.Sabotage
	at   moment
	slow sync.Once
}

func newStrike(s functions.Sabotage) *strike {
	at := atFirst
	if s.At >= 0.5 {
		at = midModel
	}
	return &strike{does: s, at: at}
}

// struck does what sabotage asks for when its moment has come: a kill ends the
// attempt, a hang or a freeze waits for its end. errStruck: the request is to
// be cut off.
func (a *attempt) struck(ctx context.Context, now moment) error {
	s := a.strike
	if now < s.at {
		return nil
	}
	switch {
	case s.does.Kill:
		a.settle(functions.Answer{}, fault.New("remote.run", fault.Unavailable, "the connection to the function was cut on purpose"))
		return errStruck
	case s.does.Hang, s.does.Freeze:
		select {
		case <-a.over:
		case <-ctx.Done():
		}
		return errStruck
	}
	s.slow.Do(func() { a.sleep(ctx, s.does.Slow) })
	return nil
}

// sleep returns after a while, or when the attempt or ctx ends.
func (a *attempt) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.over:
	case <-ctx.Done():
	}
}
