package ranged

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

const (
	// silence is how long a reader may take nothing, or a writer send nothing.
	silence = 30 * time.Second
	window  = 256 << 10 // bytes copied at once
)

// Content is what Serve gives.
type Content struct {
	Size int64  // bytes
	Tag  string // tells this content from any other of the same URL; no quotes
	// Open gives length bytes from offset, both within Size.
	Open func(offset, length int64) (io.ReadCloser, error)
	// Window is what bytes are copied through; nil: Serve makes one.
	Window []byte
}

// Serve answers a GET, with or without a Range of one part, or a HEAD. A client
// that takes nothing for half a minute is cut off. An error is that of c.Open:
// then nothing has been written, and the caller answers.
func Serve(w http.ResponseWriter, r *http.Request, c Content) error {
	head := w.Header()
	tag := `"` + c.Tag + `"`
	head.Set("ETag", tag)
	head.Set("Accept-Ranges", "bytes")
	head.Set("Content-Type", "application/octet-stream")
	offset, length, status := int64(0), c.Size, http.StatusOK
	if asked := r.Header.Get("Range"); asked != "" && (r.Header.Get("If-Range") == "" || r.Header.Get("If-Range") == tag) {
		var ok bool
		if offset, length, ok = parseRange(asked, c.Size); !ok {
			head.Set("Content-Range", fmt.Sprintf("bytes */%d", c.Size))
			httpfault.Fail(w, httpfault.WithStatus(http.StatusRequestedRangeNotSatisfiable, fault.New("ranged.serve", fault.Invalid, "range %q of %d bytes", asked, c.Size)))
			return nil
		}
		head.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, c.Size))
		status = http.StatusPartialContent
	}
	head.Set("Content-Length", strconv.FormatInt(length, 10))
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return nil
	}
	body, err := c.Open(offset, length)
	if err != nil {
		for _, name := range []string{"Content-Length", "Content-Range", "ETag"} {
			head.Del(name)
		}
		return err
	}
	defer func() { _ = body.Close() }()
	w.WriteHeader(status)
	if c.Window == nil {
		c.Window = make([]byte, min(window, length+1))
	}
	out := &patientWriter{w: w, control: http.NewResponseController(w)}
	if n, err := io.CopyBuffer(out, struct{ io.Reader }{body}, c.Window); err != nil || n != length {
		panic(http.ErrAbortHandler) // so that nobody takes a part for the whole
	}
	return nil
}

// parseRange reads "bytes=N-" and "bytes=N-M" for what has size bytes.
func parseRange(asked string, size int64) (offset, length int64, ok bool) {
	from, to, dash := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
	offset, err := strconv.ParseInt(from, 10, 64)
	if err != nil || !dash || !strings.HasPrefix(asked, "bytes=") || offset < 0 || offset >= size {
		return 0, 0, false
	}
	last := size - 1
	if to != "" {
		if last, err = strconv.ParseInt(to, 10, 64); err != nil || last < offset {
			return 0, 0, false
		}
	}
	return offset, min(last, size-1) - offset + 1, true
}

// patientWriter gives each write its time, so that a body may take as long as it
// goes on.
type patientWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(silence)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}

// NewWriter returns a writer of a response's body that fails once the client has
// taken nothing for half a minute.
func NewWriter(w http.ResponseWriter) io.Writer {
	return &patientWriter{w: w, control: http.NewResponseController(w)}
}

// NewBody returns a reader of a request's body that fails once the client has
// sent nothing for half a minute.
func NewBody(w http.ResponseWriter, r *http.Request) io.Reader {
	return &patientBody{r: r.Body, control: http.NewResponseController(w)}
}

type patientBody struct {
	r       io.Reader
	control *http.ResponseController
}

func (p *patientBody) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(silence)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := p.r.Read(b)
	if err != nil { // the work that follows may take its time
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
