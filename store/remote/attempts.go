package remote

import (
	"context"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
)

// remembered is how many attempts are remembered that have ended.
const remembered = 4096

// attempts is what became of the writes that clients have named. The zero value
// is ready.
type attempts struct {
	mu    sync.Mutex // guards what follows
	known map[string]*attempt
	ended []string // the oldest first
}

// attempt is a write.
type attempt struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when err is known
	err    error         // nil: it was done
}

// errNever is what an attempt ends with that nobody may make any more.
func errNever() error {
	return fault.New("remote.settle", fault.Unavailable, "its sender gave it up before it began")
}

// run makes an attempt, unless it has been given up.
func (a *attempts) run(ctx context.Context, id string, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &attempt{cancel: cancel, done: make(chan struct{}), err: fault.New("remote.put", fault.Unavailable, "stopped")}
	a.mu.Lock()
	if a.known[id] != nil {
		a.mu.Unlock()
		return errNever()
	}
	a.addLocked(id, t)
	a.mu.Unlock()
	defer func() { // also when do panics
		a.mu.Lock()
		defer a.mu.Unlock()
		close(t.done)
		a.endLocked(id)
	}()
	t.err = do(ctx)
	return t.err
}

// settle ends an attempt and says what became of it: known is false of one that
// nobody remembers, which may not be made from now on.
func (a *attempts) settle(ctx context.Context, id string) (known bool, err error) {
	a.mu.Lock()
	t := a.known[id]
	if t == nil {
		t = &attempt{done: make(chan struct{}), err: errNever()}
		close(t.done)
		a.addLocked(id, t)
		a.endLocked(id)
		a.mu.Unlock()
		return false, t.err
	}
	a.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
	select {
	case <-t.done:
		return true, t.err
	case <-ctx.Done():
		return true, fault.New("remote.settle", fault.Unavailable, "it has not ended: %w", ctx.Err())
	}
}

func (a *attempts) addLocked(id string, t *attempt) {
	if a.known == nil {
		a.known = map[string]*attempt{}
	}
	a.known[id] = t
}

func (a *attempts) endLocked(id string) {
	a.ended = append(a.ended, id)
	for len(a.ended) > remembered {
		delete(a.known, a.ended[0])
		a.ended = a.ended[1:]
	}
}
