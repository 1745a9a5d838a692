package remote

import (
	"crypto/sha256"
	"io"
	"net/http"
	"sync"
	"time"
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
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(s.r, 0, s.size))
	return nil
}
