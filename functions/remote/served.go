package remote

import (
	"crypto/sha256"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// served is bytes that a GET gives, whole or in ranges.
type served struct {
	r    io.ReaderAt
	size int64
	// digest is computed once, by the first who asks.
	digest func() (Digest, error)
}

func newServed(r io.ReaderAt, size int64) *served {
	s := &served{r: r, size: size}
	s.digest = sync.OnceValues(func() (Digest, error) {
		h := sha256.New()
		if _, err := io.CopyBuffer(h, struct{ io.Reader }{io.NewSectionReader(r, 0, size)}, make([]byte, window)); err != nil {
			return Digest{}, err
		}
		return Digest(h.Sum(nil)), nil
	})
	return s
}

// serve answers a GET. An input that fails meanwhile cuts the answer off.
func (s *served) serve(w http.ResponseWriter, r *http.Request, contentType string) error {
	digest, err := s.digest()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set(DigestHeader, digest.String())
	w.Header().Set("ETag", `"`+digest.hex()+`"`)
	refused := &refusal{ResponseWriter: w}
	http.ServeContent(refused, r, "", time.Time{}, io.NewSectionReader(s.r, 0, s.size))
	if refused.status != 0 {
		return statusError{fault.New("remote.get", fault.Invalid, "range %.100q: there are %d bytes", r.Header.Get("Range"), s.size), refused.status}
	}
	return nil
}

// refusal keeps what net/http says of a range that there is not, which is no JSON.
type refusal struct {
	http.ResponseWriter
	status int // 0: nothing was refused
}

// WriteHeader implements http.ResponseWriter.
func (r *refusal) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		r.status = status
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *refusal) Write(p []byte) (int, error) {
	if r.status != 0 {
		return len(p), nil
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *refusal) Unwrap() http.ResponseWriter { return r.ResponseWriter }
