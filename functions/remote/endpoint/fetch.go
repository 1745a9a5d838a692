package endpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

// fetch gets what the job has into a file, which is open as long as the job is. A
// connection that breaks costs what was on its way: the rest is asked for. Corrupt:
// what came is not what the job says it is.
func (j *job) fetch(ctx context.Context, what, id string) (functions.Input, error) {
	path := j.path(what + "-in")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return functions.Input{}, fault.New("endpoint.fetch", fault.Unavailable, "%w", err)
	}
	j.open = append(j.open, file)
	d := &download{job: j, what: what, id: id, file: file}
	d.reset()
	if err := patiently(ctx, func() (bool, bool, error) { return d.more(ctx) }); err != nil {
		return functions.Input{}, err
	}
	return functions.Input{R: file, Size: d.have, Path: path}, nil
}

// download is a file on its way.
type download struct {
	job      *job
	what, id string
	file     *os.File

	have int64 // bytes in the file
	most int64 // that were ever in it
	sum  hash.Hash
	etag string // of what those bytes are of; "" = none
}

func (d *download) reset() {
	d.have, d.sum, d.etag = 0, sha256.New(), ""
}

// more asks for what is missing.
func (d *download) more(ctx context.Context) (progress, again bool, err error) {
	r, err := d.job.request(ctx, http.MethodGet, d.what, d.id, nil)
	if err != nil {
		return false, false, err
	}
	if d.have > 0 && d.etag != "" {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		r.Header.Set("If-Range", d.etag)
	}
	response, again, err := d.job.do(r)
	if err != nil {
		return false, again, err
	}
	defer response.Body.Close()
	if !d.goesOn(response) {
		d.reset()
		d.etag = response.Header.Get("ETag")
	}
	want, digested, err := remote.ParseDigest(response.Header.Get(remote.DigestHeader))
	if err != nil {
		return false, false, err
	}
	if err := d.take(response); err != nil {
		progress = d.have > d.most
		d.most = max(d.most, d.have)
		return progress, fault.KindOf(err) != fault.Corrupt, err
	}
	if got := remote.Digest(d.sum.Sum(nil)); digested && got != want {
		err := fault.New("endpoint.fetch", fault.Corrupt, "the %s was damaged on its way: its %d bytes have another SHA-256 than the job says", d.what, d.have)
		d.reset()
		return false, true, err
	}
	return false, false, nil
}

// goesOn reports whether an answer goes on where the file ends.
func (d *download) goesOn(response *http.Response) bool {
	return response.StatusCode == http.StatusPartialContent && d.etag != "" && response.Header.Get("ETag") == d.etag &&
		strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.have))
}

// take writes an answer behind what the file has.
func (d *download) take(response *http.Response) error {
	const op = "endpoint.fetch"
	if response.StatusCode == http.StatusPartialContent && d.have == 0 && !strings.HasPrefix(response.Header.Get("Content-Range"), "bytes 0-") {
		return fault.New(op, fault.Unavailable, "the %s: a part came that nobody asked for: %.100q", d.what, response.Header.Get("Content-Range"))
	}
	buffer := make([]byte, 256<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := d.file.WriteAt(buffer[:n], d.have); err != nil {
				return fault.New(op, fault.Unavailable, "keep the %s: %w", d.what, err)
			}
			_, _ = d.sum.Write(buffer[:n]) // a hash takes all
			d.have += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return d.file.Truncate(d.have) // an earlier one may have been longer
		case err != nil:
			return fault.New(op, fault.Unavailable, "the %s broke off after %d bytes: %w", d.what, d.have, err)
		}
	}
}
