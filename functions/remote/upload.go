package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// window is how much of an input or an output is in memory at once.
	window = 256 << 10
	// headerRoom is by how much a trained model's file may be longer than the
	// one it was trained from: names and shapes are the same, but not what else
	// its header says.
	headerRoom = 16 << 20
)

// upload is an output that a function puts, once.
type upload struct {
	what string // for messages: "model"
	out  functions.Output
	most int64 // bytes; 0: as many as there is room for

	mu     sync.Mutex // guards the rest
	begun  bool
	whole  bool // it is there, with this digest and size
	digest Digest
	size   int64
}

// claim makes the caller the one who writes the output. Repeat: it is there
// already. Conflict: somebody writes it, or the attempt has ended; Invalid: it is
// too large.
func (u *upload) claim(a *attempt, size int64) (repeat bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case a.settled():
		return false, errOver
	case u.whole && u.size != size:
		return false, u.another()
	case u.whole:
		return true, nil
	case u.begun:
		return false, fault.New("remote.put", fault.Conflict, "the %s is being put already", u.what)
	case u.most > 0 && size > u.most:
		return false, statusError{fault.New("remote.put", fault.Invalid,
			"a %s of %d bytes cannot be that of this job, which has at most %d", u.what, size, u.most), http.StatusRequestEntityTooLarge}
	}
	u.begun = true
	return false, nil
}

func (u *upload) another() error {
	return fault.New("remote.put", fault.Conflict, "another %s is there already", u.what)
}

// put takes a request's body as an output. What fails once it has begun to
// write fails the attempt: it writes once.
func (x *exchanged) put(u *upload) error {
	const op = "remote.put"
	if u == nil {
		return fault.New(op, fault.Conflict, "%s does not want that: see want_model and want_optimizer of the assignment", x.a.ref)
	}
	size := x.r.ContentLength
	if size < 0 || size == 0 && x.r.Header.Get("Content-Length") == "" { // HTTP/1 takes a request that says nothing for one without a body
		return statusError{fault.New(op, fault.Invalid, "say the length of the %s in Content-Length", u.what), http.StatusLengthRequired}
	}
	if size == 0 {
		return fault.New(op, fault.Invalid, "the %s is empty: put a state dict, as safetensors", u.what)
	}
	want, digested, err := ParseDigest(x.r.Header.Get(DigestHeader))
	if err != nil {
		return err
	}
	repeat, err := u.claim(x.a, size)
	if err != nil {
		return err
	}
	if repeat {
		return x.putAgain(u)
	}
	got, err := x.a.take(x.r.Context(), u, x.r.Body, size)
	if err == nil && digested && got != want {
		err = fault.New(op, fault.Rejected, "the %s was damaged on its way: its %d bytes have the SHA-256 %.16s, not %.16s", u.what, size, got.hex(), want.hex())
	}
	if err != nil {
		x.a.settle(functions.Answer{}, err) // unless that is why it failed
		return err
	}
	u.mu.Lock()
	u.whole, u.digest, u.size = true, got, size
	u.mu.Unlock()
	x.stored(got)
	return nil
}

// putAgain answers who puts what is there.
func (x *exchanged) putAgain(u *upload) error {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, x.r.Body, make([]byte, window)); err != nil {
		return fault.New("remote.put", fault.Invalid, "the repeat of the %s broke off: %w", u.what, err)
	}
	if got := Digest(h.Sum(nil)); got != u.digest { // which does not change any more
		return u.another()
	}
	x.stored(u.digest)
	return nil
}

func (x *exchanged) stored(d Digest) {
	x.w.Header().Set(DigestHeader, d.String())
	x.w.WriteHeader(http.StatusOK)
}

// take writes an output of size bytes and returns their digest. An error of the
// output is returned as it is. Unavailable: the body broke off. Conflict: the
// attempt has ended.
func (a *attempt) take(ctx context.Context, u *upload, body io.Reader, size int64) (Digest, error) {
	var w io.Writer
	if err := a.write(func() (err error) { w, err = u.out.Create(size); return err }); err != nil {
		return Digest{}, err
	}
	h, buf := sha256.New(), make([]byte, min(window, size+1))
	for have := int64(0); ; {
		n, err := body.Read(buf)
		if n > 0 {
			_, _ = h.Write(buf[:n]) // a hash takes all
			if err := a.write(func() error { _, err := w.Write(buf[:n]); return err }); err != nil {
				return Digest{}, err
			}
			if have += int64(n); u == a.modelPut && have >= size/2 {
				if err := a.struck(ctx, midModel); err != nil {
					return Digest{}, err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF) && have == size:
			return Digest(h.Sum(nil)), nil
		case err != nil:
			return Digest{}, fault.New("remote.put", fault.Unavailable, "the %s broke off after %d of %d bytes: %w", u.what, have, size, err)
		}
	}
}
