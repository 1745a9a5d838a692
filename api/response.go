package api

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// response is where a handler answers. A client that does not take what it is
// sent is cut off.
type response struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // of each Write
	status   int           // 0: not begun
	bytes    int64
}

func newResponse(w http.ResponseWriter, patience time.Duration) *response {
	return &response{ResponseWriter: w, control: http.NewResponseController(w), patience: patience}
}

// Unwrap lets a http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) began() bool { return w.status != 0 }

// WriteHeader begins the answer.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer, or fails after the client's patience is over.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// flush sends what was written so far.
func (w *response) flush() error {
	w.extend()
	return w.control.Flush()
}

// extend gives the client its patience from now on. What follows the handler, such
// as the last bytes of a quiet stream, needs it too.
func (w *response) extend() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience)) // every connection has deadlines
}

// cut ends the connection, so that the client knows that something is missing.
func (w *response) cut() { panic(http.ErrAbortHandler) }

// body is the body of a request, of which a client must send the more the longer
// it takes.
type body struct {
	io.ReadCloser               // bounded
	plain         io.ReadCloser // not
	w             *response
	began         time.Time
	patience      time.Duration // for all of it, beside what rate gives
	rate          int64         // bytes that give another second; 0: none do
	read          int64
}

// limitBody bounds what a client may send, and for how long.
func limitBody(w *response, r *http.Request, limit int64, patience time.Duration) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &body{plain: r.Body, w: w, began: time.Now(), patience: patience}
	b.bound(limit, 0)
	r.Body = b
}

// upload gives a body of which nothing was read yet other bounds: it may be
// larger, and take longer.
func upload(r *http.Request, limit int64) {
	if b, ok := r.Body.(*body); ok {
		b.bound(limit, config.UploadRate)
	}
}

func (b *body) bound(limit, rate int64) {
	b.ReadCloser, b.rate = http.MaxBytesReader(b.w.ResponseWriter, b.plain, limit), rate
	b.extend()
}

func (b *body) extend() {
	until := b.began.Add(b.patience)
	if b.rate > 0 {
		until = until.Add(time.Duration(float64(b.read) / float64(b.rate) * float64(time.Second)))
	}
	_ = b.w.control.SetReadDeadline(until)
}

// Read reads on until the deadline. At the end it lifts that: it would end the
// request while it is being answered.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case err == io.EOF:
		_ = b.w.control.SetReadDeadline(time.Time{})
	case b.rate > 0:
		b.extend()
	}
	return n, err
}

// warn adds warnings about what was accepted.
func (w *response) warn(texts []string) {
	for _, text := range texts {
		w.Header().Add(jobjson.WarningHeader, strconv.QuoteToASCII(text))
	}
}
