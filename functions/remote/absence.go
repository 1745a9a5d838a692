package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// waitsMost is how long an endpoint that is not there is waited for: one that
	// is started again is there within that.
	waitsMost = 45 * time.Second
	// pauseFirst is between the first two tries; each pause after it is twice as
	// long, up to pauseMost.
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 5 * time.Second
)

// target is where a function is invoked.
type target struct {
	endpoint string // as it was registered
	call     string // with the arguments of the call
}

// absent is why a call has not reached its function: nobody is at the endpoint. It
// may be made again, there or elsewhere, as if it had not been made.
type absent struct{ error }

// Unwrap returns the error with its kind.
func (a absent) Unwrap() error { return a.error }

// unreached reports whether an error of a call is that no connection to its host
// came to be: it resolves to nothing, or refuses, or nobody is there.
func unreached(err error) bool {
	op, is := errors.AsType[*net.OpError](err)
	return is && (op.Op == "dial" || op.Op == "proxyconnect")
}

// gatewayAlone reports whether a status says that a gateway has nobody behind it.
func gatewayAlone(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// absences knows which endpoints are not there, and since when: whoever calls one
// that was waited for long enough does not wait as long again. It is safe for
// concurrent use.
type absences struct {
	mu sync.Mutex // guards of
	of map[string]*absence
}

// absence is that of an endpoint.
type absence struct {
	since, seen time.Time
	told        bool
}

// note is told that an endpoint was not there in a try that began and ended then,
// and returns since when it is not. What nobody has seen for long is forgotten.
func (s *absences) note(endpoint string, began, now time.Time) (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of[endpoint]
	if a == nil || began.Sub(a.seen) > waitsMost {
		a = &absence{since: began}
		s.of[endpoint] = a
	}
	a.seen = now
	return a.since
}

// end is told that an endpoint is there.
func (s *absences) end(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, endpoint)
}

// tell reports whether nobody was told yet that these are waited for.
func (s *absences) tell(targets []target) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range targets {
		if a := s.of[t.endpoint]; a != nil && !a.told {
			a.told, news = true, true
		}
	}
	return news
}

// call invokes the function at the first of its endpoints that is there. Where none
// is it waits for one, for so long that one is back that was started again: retries
// alone would be over before. Errors are those of ask.
func (r *Runtime) call(ctx context.Context, a *attempt, targets []target) error {
	most := r.config.Patience
	if half := a.inv.Timeout / 2; half > 0 {
		most = min(most, half)
	}
	for wait := pauseFirst; ; wait = min(2*wait, pauseMost) {
		var err error
		var since time.Time // when the last of them went
		for _, to := range targets {
			began := time.Now()
			err = r.ask(ctx, a, to)
			if !errors.As(err, new(absent)) {
				r.absences.end(to.endpoint)
				return err
			}
			if a.hasBegun.Load() || ctx.Err() != nil { // what a gateway says of a function that was cut off
				return err
			}
			if gone := r.absences.note(to.endpoint, began, time.Now()); gone.After(since) {
				since = gone
			}
		}
		left := most - time.Since(since)
		if left <= 0 {
			return fault.New("remote.run", fault.Unavailable, "%w (nobody was there for %v)", err, time.Since(since).Round(time.Second/10))
		}
		if r.absences.tell(targets) {
			r.config.Log.Warn("no endpoint of a function is there: waiting", zap.String("function", a.inv.Function), zap.Duration("up_to", left), zap.Error(err))
			r.config.Warn("waiting up to " + left.Round(time.Second).String() + " for an endpoint to be there: " + err.Error())
		}
		jitter := rand.N(wait / 4) //nolint:gosec // not a secret
		if err := pause(ctx, min(wait+jitter, left)); err != nil {
			return err
		}
	}
}
