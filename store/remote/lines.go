package remote

import (
	"bufio"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/ranged"
	"github.com/troupe-ml/troupe/store"
)

// line is one of a list, or the answer to one question.
type line struct {
	Object *store.Object `json:"object,omitempty"`
	Folder string        `json:"folder,omitempty"`
	Error  string        `json:"error,omitempty"`
	Kind   string        `json:"kind,omitempty"` // of Error
	End    bool          `json:"end,omitempty"`  // it is the last, and nothing is missing
}

func failed(err error) line { return line{Error: err.Error(), Kind: fault.KindOf(err).String()} }

// failure is the error that a line tells, or nil.
func (l line) failure(op string) error {
	if l.Error == "" {
		return nil
	}
	return fault.New(op, httpfault.KindOf(0, l.Kind), "%s", l.Error)
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	after := query.Get("after")
	return writeLines(w, h.store.List(r.Context(), query.Get("prefix")), func(o store.Object) (line, bool) {
		return line{Object: &o}, o.Key > after
	})
}

func (h *Handler) folders(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	after := query.Get("after")
	return writeLines(w, h.store.Folders(r.Context(), query.Get("prefix")), func(name string) (line, bool) {
		return line{Folder: name}, after == "" || name+"/" > after+"/"
	})
}

// writeLines writes those that show says.
func writeLines[T any](w http.ResponseWriter, all iter.Seq2[T, error], show func(T) (line, bool)) error {
	out := bufio.NewWriterSize(ranged.NewWriter(w), 32<<10)
	encoder, begun := json.NewEncoder(out), false
	for one, err := range all {
		if err != nil && !begun {
			return err
		}
		if err != nil {
			_ = encoder.Encode(failed(err))
			_ = out.Flush()
			return nil
		}
		begun = true
		if l, ok := show(one); ok && encoder.Encode(l) != nil {
			return nil // whoever asked is not there any more
		}
	}
	_ = encoder.Encode(line{End: true})
	_ = out.Flush()
	return nil
}
