// Package store keeps everything that must outlive a process as objects in one
// bucket, named by a URL: bytes by key, written whole or not at all.
//
// Two drivers: file (our own: a folder that several processes may share) and
// mem (one process, for tests). store/storetest holds what both must do;
// store/dataset, store/function, store/model and store/job are the catalogs on
// top, store/claim says who owns what, and store/gc removes what nobody needs.
package store

import (
	"context"
	"io"
	"iter"
	"net/url"
	"path/filepath"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Store is a bucket. Every method is safe for concurrent use, by several
// processes too where the driver is file. Keys are as CheckKey says.
//
// An object appears whole or not at all: when write fails, panics or ctx ends,
// and when the process dies in the middle, the key is as it was before. What a
// successful Put, PutIfAbsent or Delete did survives a loss of power.
//
// A key may not also be the folder of another: while "a/b" exists, putting "a"
// is a fault.Conflict, and the other way round.
//
// Kinds of error: Invalid (key, prefix or range), NotFound, Conflict, and
// Unavailable for whatever the storage refuses (full, read-only, gone, closed),
// naming the path. An error of write keeps its own kind.
type Store interface {
	// Get opens length bytes of an object from offset, or all from there on if
	// length is -1. A range that ends behind the object is cut short; one that
	// starts behind it is Invalid. The caller closes the reader, which shows
	// the object as it was when opened even if it is replaced meanwhile.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Put creates or replaces an object with what write writes. The writer is
	// valid only during the call of write.
	Put(ctx context.Context, key string, write func(io.Writer) error) error
	// PutIfAbsent creates an object. When the key is there it is a Conflict,
	// and write may not have been called. Of several callers exactly one wins.
	PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error
	// List yields the objects whose key starts with prefix ("" = all), in
	// bytewise order of their keys. It ends after the first error. An object
	// that comes or goes during the walk may or may not be seen.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Folders yields the names of the folders right below prefix, which is ""
	// or ends with "/": of what is there under prefix+name+"/". It is in
	// bytewise order of name+"/", without the slash, and looks no deeper than
	// it must. Otherwise as List.
	Folders(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes an object. Deleting what is not there is no error.
	Delete(ctx context.Context, key string) error
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Object, error)
	// URL names the object for people. It says nothing about its existence.
	URL(key string) string
	// Close ends what the store runs in the background. A second call does nothing.
	Close() error
}

// Object describes an object.
type Object struct {
	Key     string
	Size    int64     // bytes
	ModTime time.Time // by the clock of the storage: a hint, not an order
	// Version tells this content from what is under the key before and after, for
	// those who read it in parts.
	Version uint64
}

// Localizer is what a Store also is when its objects are files of this
// machine.
type Localizer interface {
	// Path is where the object of that key is, or would be. The file must only
	// be read. False: not on this machine, or no valid key.
	Path(key string) (string, bool)
}

// Open opens the bucket at rawURL: "file:///folder", or "mem://", which is
// fresh and empty at each call. Nothing is created before the first Put. A URL
// of another form is fault.Invalid.
func Open(ctx context.Context, rawURL string) (Store, error) {
	const op = "store.open"
	if err := ctx.Err(); err != nil {
		return nil, fault.New(op, fault.Unavailable, "open store %q: %w", rawURL, err)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "store %q is no URL: %w", rawURL, err)
	}
	if u.Scheme == "" && u.Path != "" {
		path, err := filepath.Abs(rawURL)
		if err == nil {
			return nil, fault.New(op, fault.Invalid, "store %q is a path, and not a URL: write %s", rawURL, (&url.URL{Scheme: "file", Path: path}).String())
		}
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return nil, fault.New(op, fault.Invalid, "store %q: only a scheme and a path are understood, as in file:///folder", rawURL)
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return nil, fault.New(op, fault.Invalid, "store %q names the host %q: write file:///folder, with three slashes", rawURL, u.Host)
		}
		if !filepath.IsAbs(u.Path) {
			return nil, fault.New(op, fault.Invalid, "store %q has no absolute path: write file:///folder", rawURL)
		}
		return NewFile(u.Path)
	case "mem":
		if u.Host != "" || u.Path != "" {
			return nil, fault.New(op, fault.Invalid, "store %q: a mem:// store has no name", rawURL)
		}
		return NewMem(), nil
	}
	return nil, fault.New(op, fault.Invalid, "store %q has the scheme %q: supported are file:// and mem://", rawURL, u.Scheme)
}
