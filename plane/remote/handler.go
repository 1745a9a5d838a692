package remote

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/ranged"
	"github.com/troupe-ml/troupe/plane"
)

// Handler serves the sealed keys of a node, to whoever may send it requests:
//
//	GET /KEY?bytes=N   with ranges
//
// Mounted below a path, it wants that stripped.
type Handler struct {
	node  string
	space plane.Space
	boot  string // this life of the handler: keys may come again in the next

	windows windows
}

// NewHandler returns the handler of what node has in its space.
func NewHandler(node string, space plane.Space) *Handler {
	return &Handler{node: node, space: space, boot: rand.Text()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		httpfault.Fail(w, err)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	size, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
	if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return fault.New("plane.serve", fault.Invalid, "%s %s: want GET /KEY?bytes=N", r.Method, r.URL)
	}
	blob, err := h.space.Open(r.Context(), plane.Ref{Node: h.node, Key: strings.TrimPrefix(r.URL.Path, "/"), Bytes: size})
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	window := h.windows.get()
	defer h.windows.put(window)
	return ranged.Serve(w, r, ranged.Content{Size: size, Window: *window, Tag: fmt.Sprintf("%s-%d", h.boot, size), Open: func(offset, length int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(blob, offset, length)), nil
	}})
}

// pathOf is where Handler has what ref names.
func pathOf(ref plane.Ref) string {
	return (&url.URL{Path: "/" + ref.Key, RawQuery: "bytes=" + strconv.FormatInt(ref.Bytes, 10)}).String()
}
