package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/internal/fault"
)

// upload is a Put that is being written: what is short is kept, to be sent and
// sent again; of what is long a window.
type upload struct {
	op, key string
	absent  bool

	store  *Store
	ctx    context.Context
	digest xxhash.Digest
	size   int64
	short  []byte
	long   *flow // nil while short is all
	err    error // the first of Write, in case its caller does not pass it on
}

func (s *Store) put(ctx context.Context, u upload, write func(io.Writer) error) error {
	if err := s.prepare(ctx, u.op, u.key); err != nil {
		return err
	}
	u.store, u.ctx = s, ctx
	u.digest.Reset()
	defer u.end() // also when write panics
	if err := write(&u); u.err != nil {
		return u.err
	} else if err != nil {
		return fmt.Errorf("write %q: %w", u.key, err)
	}
	if err := ctx.Err(); err != nil {
		return stopped(u.op, u.key, err)
	}
	if u.long != nil {
		return u.long.commit(u.said())
	}
	return s.insist(ctx, u.op, u.key, u.said(), func(id string) sent {
		return s.send(ctx, u.op, http.MethodPut, u.key, id, u.absent, &body{Reader: bytes.NewReader(u.short), all: u.said})
	})
}

// said is what the commit says.
func (u *upload) said() string { return commit(u.size, u.digest.Sum64()) }

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.err == nil && u.ctx.Err() != nil {
		u.err = stopped(u.op, u.key, u.ctx.Err())
	}
	if u.err != nil {
		return 0, u.err
	}
	_, _ = u.digest.Write(p)
	u.size += int64(len(p))
	if u.long == nil && u.size <= kept {
		u.short = append(u.short, p...)
		return len(p), nil
	}
	if u.long == nil {
		if u.err = u.begin(); u.err != nil {
			return 0, u.err
		}
	}
	n, err := u.long.out.Write(p)
	if err != nil {
		u.err = u.long.failure()
	}
	return n, u.err
}

// begin sends what is longer than what is kept. To create what is there already is
// refused before.
func (u *upload) begin() error {
	if u.absent {
		switch _, err := u.store.Stat(u.ctx, u.key); {
		case err == nil:
			return fault.New(u.op, fault.Conflict, "object %q exists", u.key)
		case fault.KindOf(err) != fault.NotFound:
			return err
		}
	}
	u.long = newFlow(u)
	_, err := u.long.out.Write(u.short)
	u.short = nil
	if err != nil {
		return u.long.failure()
	}
	return nil
}

// end gives up what was not committed, and returns when nothing is left of it as
// far as the other node can be asked.
func (u *upload) end() {
	if u.long != nil {
		u.long.giveUp()
	}
}

// flow is a long body on its way.
type flow struct {
	upload *upload
	name   attemptName
	out    *bufio.Writer
	pipe   *io.PipeWriter
	cancel context.CancelFunc
	stop   func() bool   // forgets the context of the upload
	said   atomic.Value  // string: what the commit says
	done   chan struct{} // closed when outcome is there
	ended  sent
}

func newFlow(u *upload) *flow {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(u.ctx))
	f := &flow{upload: u, name: attemptName{id: rand.Text(), key: u.key}, pipe: w, cancel: cancel, done: make(chan struct{})}
	f.out = bufio.NewWriterSize(w, 256<<10)
	f.stop = context.AfterFunc(u.ctx, func() { // a writer that hangs in Write hears of it, too
		_ = w.Close()
		time.AfterFunc(farewell, cancel)
	})
	go func() {
		defer close(f.done)
		f.ended = u.store.send(ctx, u.op, http.MethodPut, u.key, f.name.id, u.absent, &body{Reader: r, all: func() string {
			all, _ := f.said.Load().(string)
			return all
		}})
		_ = r.CloseWithError(errors.New("the request has ended"))
	}()
	return f
}

// failure is why the request has ended before its body, or is to end.
func (f *flow) failure() error {
	u := f.upload
	if err := u.ctx.Err(); err != nil {
		return stopped(u.op, u.key, err)
	}
	<-f.done
	if f.ended.err == nil || f.ended.lost || f.ended.none {
		return fault.New(u.op, fault.Unavailable, "write %q: the connection to the node that has the store has ended: %v", u.key, f.ended.err)
	}
	return f.ended.err
}

// commit says that it is all, and what became of it.
func (f *flow) commit(said string) error {
	u := f.upload
	if err := f.out.Flush(); err != nil {
		return f.failure()
	}
	f.name.sent = said
	f.said.Store(said)
	_ = f.pipe.Close()
	<-f.done
	if !f.ended.lost {
		return f.ended.err
	}
	done, err := u.store.outcome(u.ctx, u.op, f.name, f.ended.err)
	if !done {
		return fault.New(u.op, fault.Unavailable, "write %q: %w", u.key, f.ended.err)
	}
	return err
}

// giveUp ends a body that is not to be stored: without the word that it is all.
func (f *flow) giveUp() {
	defer f.cancel()
	defer f.stop()
	_ = f.pipe.Close()
	select {
	case <-f.done:
	case <-time.After(farewell):
		f.cancel()
		<-f.done
	}
}
