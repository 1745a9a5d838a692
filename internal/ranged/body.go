package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// Source is a resource that Serve gives.
type Source struct {
	Op   string // of errors
	What string // for errors: `object "a" of node n1`
	// Ask says where it is, before each connection. What it fails with is final.
	Ask    func() (client *http.Client, url string, err error)
	Header http.Header // of each request; nil: none
	// Silence is how long a connection may say nothing before another is tried,
	// Patience how long nothing may come at all.
	Silence, Patience time.Duration
}

// Body is a range of a resource. It is not safe for concurrent use.
type Body struct {
	ctx    context.Context
	source Source
	at     int64  // of the next byte
	end    int64  // behind the last byte; -1: not known yet
	size   int64  // of the whole
	tag    string // with quotes; "": not known yet

	body   io.ReadCloser // nil: no connection
	cancel context.CancelFunc
	silent *time.Timer // cancels while a read lasts too long
	came   time.Time   // the last byte, or the beginning
	tries  int         // since then
}

// Open reads length bytes from offset, or all from there on if length is -1; a
// range that ends behind the resource is cut short. Reading ends with ctx.
// Errors, those of reading too, are what Ask, or Serve's Content.Open, fails with,
// with its kind; Invalid: offset lies behind the end; Unavailable: ctx ended, no
// answer for source.Patience, or another content has come in the middle.
func Open(ctx context.Context, source Source, offset, length int64) (*Body, error) {
	b := &Body{ctx: ctx, source: source, at: offset, end: -1, came: time.Now()}
	if length >= 0 && length < math.MaxInt64-offset {
		b.end = offset + length
	}
	for b.body == nil && b.tag == "" {
		if err := b.connect(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Size is that of the whole resource, in bytes.
func (b *Body) Size() int64 { return b.size }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	for {
		if b.at >= b.end {
			return 0, io.EOF
		}
		if b.body == nil {
			if err := b.connect(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := b.read(p[:min(int64(len(p)), b.end-b.at)])
		if b.at += int64(n); n > 0 {
			b.came, b.tries = time.Now(), 0
		}
		if err != nil {
			b.hangUp()
		}
		if n > 0 || err == nil {
			return n, nil
		}
		if err := b.again(err); err != nil {
			return 0, err
		}
	}
}

// read reads from the connection, which it gives up when that is silent.
func (b *Body) read(p []byte) (int, error) {
	b.silent.Reset(b.source.Silence)
	defer b.silent.Stop()
	return b.body.Read(p)
}

// Close ends reading.
func (b *Body) Close() error {
	b.end = 0
	b.hangUp()
	return nil
}

func (b *Body) hangUp() {
	if b.body != nil {
		_ = b.body.Close()
		b.cancel()
		b.body = nil
	}
}

// connect asks for what is lacking. Without an error there is a connection, or
// another one is to be tried.
func (b *Body) connect() error {
	client, url, err := b.source.Ask()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel()
		return fault.New(b.source.Op, fault.Invalid, "%s: %w", b.source.What, err)
	}
	for name, values := range b.source.Header {
		r.Header[name] = values
	}
	if b.at > 0 || b.end >= 0 {
		r.Header.Set("Range", b.wanted())
	}
	r.Header.Set("Accept-Encoding", "identity") // else the library would have it zipped, without a length
	if b.tag != "" {
		r.Header.Set("If-Range", b.tag)
	}
	silent := time.AfterFunc(b.source.Silence, cancel)
	answer, err := client.Do(r)
	silent.Stop()
	if err != nil {
		cancel()
		return b.again(err)
	}
	b.body, b.cancel, b.silent = answer.Body, cancel, silent
	if err := b.accept(answer); err != nil {
		b.hangUp()
		return err
	}
	return nil
}

// wanted is the range that is lacking. One of no bytes asks for one, to hear
// whether the resource is there.
func (b *Body) wanted() string {
	if b.end < 0 {
		return fmt.Sprintf("bytes=%d-", b.at)
	}
	return fmt.Sprintf("bytes=%d-%d", b.at, max(b.end-1, b.at))
}

// accept looks at the head of an answer.
func (b *Body) accept(answer *http.Response) error {
	resumed := b.tag != ""
	switch code := answer.StatusCode; {
	case resumed && (code == http.StatusOK || code == http.StatusRequestedRangeNotSatisfiable || answer.Header.Get("ETag") != b.tag && code == http.StatusPartialContent):
		return fault.New(b.source.Op, fault.Unavailable, "%s was replaced while it was read", b.source.What)
	case code == http.StatusOK:
		b.size = answer.ContentLength
	case code == http.StatusPartialContent, code == http.StatusRequestedRangeNotSatisfiable:
		_, size, _ := strings.Cut(answer.Header.Get("Content-Range"), "/")
		var err error
		if b.size, err = strconv.ParseInt(size, 10, 64); err != nil {
			return fault.New(b.source.Op, fault.Unavailable, "%s: the answer has the Content-Range %q", b.source.What, answer.Header.Get("Content-Range"))
		}
	default:
		err := httpfault.Failure(answer)
		if resumed && fault.KindOf(err) == fault.Unavailable {
			b.hangUp()
			return b.again(err)
		}
		return fault.New(b.source.Op, fault.KindOf(err), "%w", err)
	}
	if b.tag = answer.Header.Get("ETag"); b.tag == "" {
		return fault.New(b.source.Op, fault.Unavailable, "%s: an answer without an ETag", b.source.What)
	}
	if b.at > b.size {
		return fault.New(b.source.Op, fault.Invalid, "%s: offset %d lies behind its %d bytes", b.source.What, b.at, b.size)
	}
	if b.end < 0 || b.end > b.size {
		b.end = b.size
	}
	return nil
}

// again waits a little before another connection, or says that it is enough.
func (b *Body) again(err error) error {
	failed := func(err error) error {
		return fault.New(b.source.Op, fault.Unavailable, "%s: %w", b.source.What, err)
	}
	if b.ctx.Err() != nil {
		return failed(b.ctx.Err())
	}
	pause := min(20*time.Millisecond<<min(b.tries, 10), time.Second)
	b.tries++
	if time.Since(b.came)+pause > b.source.Patience {
		if errors.Is(err, context.Canceled) { // by us
			err = fmt.Errorf("no answer for %v", b.source.Patience)
		}
		return failed(err)
	}
	select {
	case <-time.After(pause):
		return nil
	case <-b.ctx.Done():
		return failed(b.ctx.Err())
	}
}
