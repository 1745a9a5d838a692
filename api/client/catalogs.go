package client

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Functions implements api.Catalogs.
func (c *Client) Functions(ctx context.Context) (list []api.Function, err error) {
	err = c.json(ctx, get("functions"), &list)
	return list, err
}

// Function implements api.Catalogs.
func (c *Client) Function(ctx context.Context, name string) (f api.Function, err error) {
	err = c.json(ctx, get("functions", name), &f)
	return f, err
}

// CreateFunction implements api.Catalogs: it sends a file, a folder without what
// begins with a dot and __pycache__, or URLs.
func (c *Client) CreateFunction(ctx context.Context, name string, from api.FunctionSource, replace bool) (f api.Function, err error) {
	k := call{method: http.MethodPut, path: []string{"functions", name}, header: http.Header{}, once: true}
	if !replace {
		k.header.Set("If-None-Match", "*")
	}
	err = c.putFunction(ctx, k, from, &f)
	return f, err
}

// UpdateFunction replaces a function that is there. NotFound; else as
// CreateFunction.
func (c *Client) UpdateFunction(ctx context.Context, name string, from api.FunctionSource) (f api.Function, err error) {
	k := call{method: http.MethodPut, path: []string{"functions", name}, header: http.Header{"If-Match": {"*"}}, once: true}
	err = c.putFunction(ctx, k, from, &f)
	return f, err
}

func (c *Client) putFunction(ctx context.Context, k call, from api.FunctionSource, into *api.Function) error {
	if len(from.URLs) > 0 {
		body, err := json.Marshal(api.FunctionURLs{URLs: from.URLs})
		if err != nil {
			return fault.New("client.encode", fault.Invalid, "%w", err)
		}
		k.header.Set("Content-Type", "application/json")
		return c.upload(ctx, k, bytes.NewReader(body), into)
	}
	path := from.Path
	info, err := stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		file, err := os.Open(path)
		if err != nil {
			return unreadable(err)
		}
		defer file.Close()
		k.header.Set("Content-Type", "text/x-python")
		k.query = url.Values{"file": {filepath.Base(path)}}
		return c.upload(ctx, k, file, into)
	}
	k.header.Set("Content-Type", "application/gzip")
	return c.stream(ctx, k, func(w io.Writer) error { return pack(w, path) }, into)
}

// DeleteFunction implements api.Catalogs.
func (c *Client) DeleteFunction(ctx context.Context, name string) error {
	return c.quiet(ctx, remove("functions", name))
}

// Datasets implements api.Catalogs.
func (c *Client) Datasets(ctx context.Context) (list []api.Dataset, err error) {
	err = c.json(ctx, get("dataset"), &list)
	return list, err
}

// Dataset implements api.Catalogs.
func (c *Client) Dataset(ctx context.Context, name string) (d api.Dataset, err error) {
	err = c.json(ctx, get("dataset", name), &d)
	return d, err
}

// CreateDataset implements api.Catalogs: it sends a file, or the files of a
// folder, but for those that begin with a dot.
func (c *Client) CreateDataset(ctx context.Context, name, path string, how dataset.Options) (d api.Dataset, err error) {
	info, err := stat(path)
	if err != nil {
		return d, err
	}
	parts := []Part{{Field: "file", Path: path}}
	if info.IsDir() {
		if parts, err = partsOf(path); err != nil {
			return d, err
		}
	}
	return c.UploadDataset(ctx, name, parts, how)
}

// Part is a file of a data set: Field is x-train, y-train, x-test, y-test, or
// file, whose name then says what it is.
type Part struct{ Field, Path string }

// UploadDataset creates a data set of files. It streams them: no file is held in
// memory. Invalid; Conflict; NotFound: a file.
func (c *Client) UploadDataset(ctx context.Context, name string, parts []Part, how dataset.Options) (d api.Dataset, err error) {
	for _, part := range parts {
		if _, err := stat(part.Path); err != nil {
			return d, err
		}
	}
	// The boundary must be known before the body is written.
	form := multipart.NewWriter(io.Discard)
	k := call{method: http.MethodPost, path: []string{"dataset", name}, once: true, query: url.Values{}, header: http.Header{"Content-Type": {form.FormDataContentType()}}}
	if how.Label != "" {
		k.query.Set("label", how.Label)
	}
	if how.TestShare != 0 {
		k.query.Set("test_share", strconv.FormatFloat(how.TestShare, 'g', -1, 64))
	}
	err = c.stream(ctx, k, func(w io.Writer) error { return writeForm(w, form.Boundary(), parts) }, &d)
	return d, err
}

// DeleteDataset implements api.Catalogs.
func (c *Client) DeleteDataset(ctx context.Context, name string) error {
	return c.quiet(ctx, remove("dataset", name))
}

// Models implements api.Catalogs.
func (c *Client) Models(ctx context.Context) (list []api.Model, err error) {
	err = c.json(ctx, get("models"), &list)
	return list, err
}

// OpenModel implements api.Catalogs.
func (c *Client) OpenModel(ctx context.Context, id string) (io.ReadCloser, int64, error) {
	k := get("models", id)
	k.header = http.Header{"Accept-Encoding": {"identity"}}
	response, err := c.do(ctx, k)
	if err != nil {
		return nil, 0, err
	}
	return response.Body, response.ContentLength, nil
}

// DeleteModel implements api.Catalogs.
func (c *Client) DeleteModel(ctx context.Context, id string) error {
	return c.quiet(ctx, remove("models", id))
}

// upload sends a body, once the server wants it, and reads the answer.
func (c *Client) upload(ctx context.Context, k call, body io.Reader, into any) error {
	k.header.Set("Expect", "100-continue")
	response, err := c.try(ctx, k, body)
	if err != nil {
		return err
	}
	return c.read(k, response, into)
}

// stream sends what write writes, as it is written, and returns when write has
// returned.
func (c *Client) stream(ctx context.Context, k call, write func(io.Writer) error, into any) error {
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(writer)
		_ = writer.CloseWithError(err) // nil: the end
		written <- err
	}()
	err := c.upload(ctx, k, reader, into)
	_ = reader.CloseWithError(errNotWanted)
	if wrong := <-written; err != nil && wrong != nil && !errors.Is(wrong, errNotWanted) {
		return wrong // a file could not be read: that is why the server got half of it
	}
	return err
}

var errNotWanted = errors.New("the server wants no more")

// writeForm writes a multipart form.
func writeForm(w io.Writer, boundary string, parts []Part) error {
	form := multipart.NewWriter(w)
	if err := form.SetBoundary(boundary); err != nil {
		return err
	}
	for _, part := range parts {
		to, err := form.CreateFormFile(part.Field, filepath.Base(part.Path))
		if err != nil {
			return err
		}
		if err := copyFile(to, part.Path); err != nil {
			return err
		}
	}
	return form.Close()
}

// partsOf lists the files of a folder.
func partsOf(dir string) ([]Part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	var parts []Part
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			parts = append(parts, Part{Field: "file", Path: filepath.Join(dir, e.Name())})
		}
	}
	if len(parts) == 0 {
		return nil, fault.New("client.dataset", fault.Invalid, "folder %q has no files", dir)
	}
	return parts, nil
}

// pack writes a folder as a gzipped tar archive.
func pack(w io.Writer, dir string) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(err)
		case path == dir:
			return nil
		case strings.HasPrefix(e.Name(), ".") || e.Name() == "__pycache__":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		return packFile(archive, dir, path)
	})
	return errors.Join(err, archive.Close(), zipped.Close())
}

func packFile(archive *tar.Writer, dir, path string) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path) // of code, which is small, and may change while it is read
	if err != nil {
		return unreadable(err)
	}
	if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(archive, bytes.NewReader(content))
	return err
}

func copyFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return unreadable(err)
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New("client.file", fault.NotFound, "there is no file %q", path)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return info, nil
}

func unreadable(err error) error { return fault.New("client.file", fault.Unavailable, "%w", err) }
