package remote

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		err := s.lines(ctx, "store.list", "/list", prefix, func(l line) (string, bool) {
			if l.Object == nil {
				return "", false
			}
			return l.Object.Key, yield(*l.Object, nil)
		})
		if err != nil {
			yield(store.Object{}, err)
		}
	}
}

// Folders implements store.Store.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := s.lines(ctx, "store.folders", "/folders", prefix, func(l line) (string, bool) {
			return l.Folder, yield(l.Folder, nil)
		})
		if err != nil {
			yield("", err)
		}
	}
}

// lines shows each line of a list, which says what it is about, until it does not
// want more. A list that ends in the middle is asked for again behind that.
func (s *Store) lines(ctx context.Context, op, path, prefix string, show func(line) (at string, more bool)) error {
	query := url.Values{"prefix": {prefix}}
	began := time.Now()
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return fault.New(op, fault.Unavailable, "list %q: %w", prefix, err)
		}
		answer, heard, err := s.ask(ctx, op, request{method: http.MethodGet, path: path, query: query})
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(answer.Body)
		for {
			var l line
			if err = decoder.Decode(&l); err != nil || l.End || l.Error != "" {
				if err == nil {
					err = l.failure(op)
				} else if e := pause(ctx, op, try, began, err); e != nil {
					err = e
				} else {
					_ = answer.Body.Close()
					break
				}
				_ = answer.Body.Close()
				return err
			}
			at, more := show(l)
			if heard(); !more {
				_ = answer.Body.Close()
				return nil
			}
			query.Set("after", at)
			began, try = time.Now(), 0
		}
	}
}
