package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/ranged"
	"github.com/troupe-ml/troupe/store"
)

// Handler serves a store, to whoever may send it requests. Mounted below a path,
// it wants that stripped.
type Handler struct {
	store    store.Store
	mux      *http.ServeMux
	boot     string // this life of the handler
	attempts attempts
}

// NewHandler returns the handler of a store, which stays the caller's to close.
func NewHandler(s store.Store) *Handler {
	h := &Handler{store: s, mux: http.NewServeMux(), boot: rand.Text()}
	h.handle("GET /objects/{key...}", h.get)
	h.handle("PUT /objects/{key...}", h.put)
	h.handle("DELETE /objects/{key...}", h.remove)
	h.handle("GET /stat/{key...}", h.stat)
	h.handle("GET /list", h.list)
	h.handle("GET /folders", h.folders)
	h.handle("POST /settle", h.settle)
	h.handle("GET /life", h.life)
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// handle answers with the error of serve, if nothing was written before.
func (h *Handler) handle(pattern string, serve func(w http.ResponseWriter, r *http.Request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r, err := h.pinned(r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			httpfault.Fail(w, err)
		}
	})
}

// pinned returns a request that works in the place that it was pinned to.
func (h *Handler) pinned(r *http.Request) (*http.Request, error) {
	want := r.Header.Get(lifeHeader)
	if want == "" {
		return r, nil
	}
	ctx, life, err := h.pin(r.Context())
	if err != nil {
		return r, err
	}
	if life != want {
		return r, fault.New("remote.pin", fault.Unavailable, "the store was opened anew in the middle of this: it is tried again there")
	}
	return r.WithContext(ctx), nil
}

// pin is store.Pin, with a name for the place that no other place ever had; "":
// there is no store yet, or none whose place can be taken.
func (h *Handler) pin(ctx context.Context) (context.Context, string, error) {
	ctx, life, err := store.Pin(ctx, h.store)
	if err != nil || life == 0 {
		return ctx, "", err
	}
	return ctx, fmt.Sprintf("%s-%d", h.boot, life), nil
}

func (h *Handler) life(w http.ResponseWriter, r *http.Request) error {
	_, life, err := h.pin(r.Context())
	if err == nil {
		w.Header().Set(urlHeader, strings.TrimSuffix(h.store.URL("x"), "x"))
		_, _ = io.WriteString(w, life)
	}
	return err
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request) error {
	key := r.PathValue("key")
	changed := errors.New("changed")
	for {
		object, err := h.store.Stat(r.Context(), key)
		if err != nil {
			return err
		}
		err = ranged.Serve(w, r, ranged.Content{
			Size: object.Size, Tag: fmt.Sprintf("%x-%d", object.Version, object.Size),
			Open: func(offset, length int64) (io.ReadCloser, error) {
				body, err := h.store.Get(r.Context(), key, offset, length)
				if err != nil {
					return nil, err
				}
				if now, err := h.store.Stat(r.Context(), key); err != nil || now.Version != object.Version || now.Size != object.Size {
					_ = body.Close()
					return nil, changed
				}
				return body, nil
			},
		})
		if !errors.Is(err, changed) {
			return err
		}
	}
}

func (h *Handler) stat(w http.ResponseWriter, r *http.Request) error {
	object, err := h.store.Stat(r.Context(), r.PathValue("key"))
	if err == nil {
		err = json.NewEncoder(w).Encode(line{Object: &object})
	}
	return err
}

func (h *Handler) put(w http.ResponseWriter, r *http.Request) error {
	put := h.store.Put
	if r.Header.Get("If-None-Match") == "*" {
		put = h.store.PutIfAbsent
	}
	return h.attempt(w, r, func(ctx context.Context) error {
		return put(ctx, r.PathValue("key"), func(dst io.Writer) error { return receive(dst, w, r) })
	})
}

func (h *Handler) remove(w http.ResponseWriter, r *http.Request) error {
	return h.attempt(w, r, func(ctx context.Context) error { return h.store.Delete(ctx, r.PathValue("key")) })
}

func (h *Handler) attempt(w http.ResponseWriter, r *http.Request, do func(context.Context) error) error {
	id := r.Header.Get(attemptHeader)
	if id == "" {
		return fault.New("remote.put", fault.Invalid, "a request without %s", attemptHeader)
	}
	if err := h.attempts.run(r.Context(), id, do); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// receive writes a body, if its sender says at its end that it is all.
func receive(dst io.Writer, w http.ResponseWriter, r *http.Request) error {
	digest := xxhash.New()
	n, err := io.CopyBuffer(io.MultiWriter(dst, digest), struct{ io.Reader }{ranged.NewBody(w, r)}, make([]byte, 64<<10))
	if err != nil {
		if fault.KindOf(err) == fault.Unknown {
			err = fault.New("remote.put", fault.Unavailable, "receive it: %w", err)
		}
		return err
	}
	switch said := r.Trailer.Get(commitTrailer); said {
	case commit(n, digest.Sum64()):
		return nil
	case "":
		return fault.New("remote.put", fault.Unavailable, "its sender gave it up")
	default:
		return fault.New("remote.put", fault.Unavailable, "%s came, its sender says %s", commit(n, digest.Sum64()), said)
	}
}

// commit is what a sender says of what it sent.
func commit(n int64, digest uint64) string { return fmt.Sprintf("%d %016x", n, digest) }

// settle ends an attempt. Of one that is not known, as the handler was another's
// then, the object says whether it was done.
func (h *Handler) settle(w http.ResponseWriter, r *http.Request) error {
	known, err := h.attempts.settle(r.Context(), r.Header.Get(attemptHeader))
	query := r.URL.Query()
	key, sent := query.Get("key"), query.Get("sent")
	if !known && sent != "" {
		if is, e := h.is(r.Context(), key, sent); e != nil {
			return e
		} else if is {
			err = nil
		}
	}
	if known && err != nil && fault.KindOf(err) != fault.Conflict {
		err = fault.New("remote.settle", fault.KindOf(err), "it was not done: %w", err)
	}
	outcome := line{}
	if err != nil {
		outcome = failed(err)
	}
	return json.NewEncoder(w).Encode(outcome)
}

// is reports whether an object is what somebody sent.
func (h *Handler) is(ctx context.Context, key, sent string) (bool, error) {
	body, err := h.store.Get(ctx, key, 0, -1)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Invalid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	digest := xxhash.New()
	n, err := io.Copy(digest, body)
	if err != nil {
		return false, fault.New("remote.settle", fault.Unavailable, "read %q: %w", key, err)
	}
	return commit(n, digest.Sum64()) == sent, nil
}
