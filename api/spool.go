package api

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// spoolPattern names the folder of an upload.
const spoolPattern = "upload-*"

// receive takes a place among those who upload, and gives f a folder of its own,
// which is gone afterwards.
func (s *Server) receive(r *http.Request, limit int64, f func(dir string) error) error {
	if r.ContentLength > limit { // before a byte of it was sent
		return jobjson.Refuse(http.StatusRequestEntityTooLarge, "the request has %d bytes, more than %d: send less", r.ContentLength, limit)
	}
	select {
	case s.uploads <- struct{}{}:
	default:
		return busy("%d clients upload already: try again later", cap(s.uploads))
	}
	defer func() { <-s.uploads }()
	upload(r, limit)
	dir, err := os.MkdirTemp(s.spool, spoolPattern)
	if err != nil {
		return noRoom(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what cannot be removed now
	return f(dir)
}

// save writes what from gives into a new file, and nothing more than limit
// bytes of it. An error of from is the client's, one of the file is ours.
func save(path string, from io.Reader, limit int64) (n int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return 0, jobjson.Invalid("file %q is sent twice: send it once", jobjson.Shown(filepath.Base(path)))
	}
	if err != nil {
		return 0, noRoom(err)
	}
	source := &noting{r: from}
	n, err = io.Copy(f, io.LimitReader(source, limit+1))
	wrong := f.Close()
	switch {
	case source.err != nil:
		return n, jobjson.BodyError(source.err)
	case n > limit:
		return n, jobjson.Refuse(http.StatusRequestEntityTooLarge, "file %q makes this more than %d bytes: send less", jobjson.Shown(filepath.Base(path)), limit)
	case err != nil || wrong != nil:
		return n, noRoom(errors.Join(err, wrong))
	}
	return n, nil
}

// noting remembers with what a reader failed.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}

// noRoom leaves out where that is: it is no client's business.
func noRoom(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fault.New("api.spool", fault.Unavailable, "keep what is uploaded: %w", err)
}
