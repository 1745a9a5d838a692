package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	stateName    = "state.json"
	previousName = "previous.json"

	maxState = 256 << 20 // bytes
)

// isState reports whether an object of that name below an incarnation is a state,
// isOfState whether it is one or a file that states name.
func isState(name string) bool   { return name == stateName || name == previousName }
func isOfState(name string) bool { return isState(name) || strings.HasSuffix(name, fileExt) }

// State is a complete state of a job.
type State struct {
	Incarnation uint64 // that saved it
	Doc         json.RawMessage
	Files       []File
	Newer       error // Corrupt: what is wrong with newer ones; nil: there is none
}

// File is a file that a state names.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Digest uint64 `json:"digest,string"` // xxhash64
}

// head is the first line of a state object, about all that follows it.
type head struct {
	Digest uint64 `json:"digest,string"` // xxhash64
}

// body is the rest.
type body struct {
	Job         string          `json:"job"`
	Incarnation uint64          `json:"incarnation"`
	Files       []File          `json:"files"`
	Doc         json.RawMessage `json:"doc"`
}

// encode returns the object of a state.
func encode(b body) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(b); err != nil {
		return nil, err
	}
	h, err := json.Marshal(head{Digest: xxhash.Sum64(text.Bytes())})
	if err != nil {
		return nil, err
	}
	return slices.Concat(h, []byte("\n"), text.Bytes()), nil
}

// decode reads the object of a state of that job and incarnation. Any change of
// a byte, and any cut, is Corrupt.
func decode(object []byte, id string, n uint64) (body, error) {
	line, text, _ := bytes.Cut(object, []byte("\n"))
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return body{}, corrupt("its first line: %w", err)
	}
	if got := xxhash.Sum64(text); got != h.Digest {
		return body{}, corrupt("its text has the digest %016x, not %016x", got, h.Digest)
	}
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return body{}, corrupt("its text: %w", err)
	}
	if b.Job != id || b.Incarnation != n {
		return body{}, corrupt("it is that of job %q, incarnation %d", b.Job, b.Incarnation)
	}
	for _, f := range b.Files {
		if err := checkName("job.load", f.Name); err != nil || f.Bytes < 0 {
			return body{}, corrupt("it names the file %q of %d bytes", f.Name, f.Bytes)
		}
	}
	return b, nil
}

func corrupt(format string, args ...any) error {
	return fault.New("job.load", fault.Corrupt, format, args...)
}

// Load returns the newest whole state of a job: that of the highest incarnation
// that has one. A state is whole if its object and every file that it names
// have the digests of when they were saved; all of them are read for that.
// Where the newest is damaged, or missing, the one before it counts, and says
// so.
//
// A nil State without an error: none was saved yet, or none is there (see
// Bereft). Corrupt: some were, and
// none is whole, naming what is wrong with each. Who is not the owner may see a
// state go while it looks, and get one that is older by then.
func (c *Catalog) Load(ctx context.Context, id string) (*State, error) {
	return c.newest(ctx, "job.load", id, c.verify)
}

// Peek returns the newest state of a job whose document is whole, without a
// look at its files: for those who only want to know how far it is. Otherwise
// as Load.
func (c *Catalog) Peek(ctx context.Context, id string) (*State, error) {
	return c.newest(ctx, "job.peek", id, noCheck)
}

// newest returns the newest state whose object is whole, and with whose files
// verify agrees.
func (c *Catalog) newest(ctx context.Context, op, id string, verify verifyFunc) (*State, error) {
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	numbers, err := c.incarnations(ctx, id)
	if err != nil {
		return nil, fault.New(op, fault.KindOf(err), "load job %s: %w", id, err)
	}
	var damage error
	for _, n := range slices.Backward(numbers) {
		missing := false
		for _, name := range []string{stateName, previousName} {
			state, err := c.load(ctx, id, n, name, verify)
			if err == nil && state == nil {
				missing = true
				continue
			}
			if missing { // nobody has a previous one without it
				damage = joinDamage(damage, corrupt("%s is missing", key(id, n, stateName)))
			}
			if err == nil {
				state.Newer = damage
				return state, nil
			}
			if kind := fault.KindOf(err); kind != fault.Corrupt {
				return nil, fault.New(op, kind, "load job %s: %w", id, err)
			}
			damage = joinDamage(damage, err)
		}
	}
	if damage != nil {
		return nil, fault.New(op, fault.Corrupt, "no state of job %s is whole: %w: restore %s from a backup, or start the job anew: as it was begun, without --resume", id, damage, c.store.URL(jobFolder(id)))
	}
	return nil, nil
}

// Bereft names the folder of the highest incarnation that has files of a state,
// where no incarnation has a state: somebody removed those, or its owner died in
// its first Save. "" where there is none.
func (c *Catalog) Bereft(ctx context.Context, id string) (string, error) {
	const op = "job.bereft"
	if err := checkID(op, id); err != nil {
		return "", err
	}
	folder := ""
	for o, err := range c.store.List(ctx, incarnationsFolder(id)) {
		if err != nil {
			return "", fault.New(op, fault.KindOf(err), "job %s: %w", id, err)
		}
		switch name := path.Base(o.Key); {
		case isState(name):
			return "", nil
		case isOfState(name):
			folder = c.store.URL(path.Dir(o.Key))
		}
	}
	return folder, nil
}

// verifyFunc checks a file of incarnation n.
type verifyFunc func(ctx context.Context, id string, n uint64, f File) error

func noCheck(context.Context, string, uint64, File) error { return nil }

func joinDamage(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w; %w", a, b)
}

// load reads one state and checks its files. A nil State without an error: it
// is not there. Corrupt names the object at fault.
func (c *Catalog) load(ctx context.Context, id string, n uint64, name string, verify verifyFunc) (*State, error) {
	object, err := store.Read(ctx, c.store, key(id, n, name), maxState)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := decode(object, id, n)
	if err != nil {
		return nil, corrupt("%s is damaged: %w", key(id, n, name), err)
	}
	for _, f := range b.Files {
		if err := verify(ctx, id, n, f); err != nil {
			return nil, err
		}
	}
	return &State{Incarnation: n, Doc: b.Doc, Files: b.Files}, nil
}

// verify reads a file through. One that is missing is Corrupt: a state names it.
func (c *Catalog) verify(ctx context.Context, id string, n uint64, f File) error {
	r, err := c.OpenFile(ctx, id, n, f)
	if fault.KindOf(err) == fault.NotFound {
		return corrupt("%s is missing", key(id, n, f.Name))
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	_, err = io.Copy(io.Discard, r)
	return err
}

// OpenFile opens a file of a state. The reader answers Corrupt in place of its
// end if what was read is not what was saved. The caller closes it. NotFound:
// pruned, if the owner went on meanwhile.
func (c *Catalog) OpenFile(ctx context.Context, id string, incarnation uint64, f File) (io.ReadCloser, error) {
	const op = "job.open"
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	if err := checkName(op, f.Name); err != nil {
		return nil, err
	}
	name := key(id, incarnation, f.Name)
	r, err := c.store.Get(ctx, name, 0, -1)
	if err != nil {
		return nil, fault.New(op, fault.KindOf(err), "job %s: %w", id, err)
	}
	return &checkedReader{ReadCloser: r, name: name, want: f, digest: xxhash.New()}, nil
}

// checkedReader compares length and digest at the end.
type checkedReader struct {
	io.ReadCloser
	name   string
	want   File
	n      int64
	digest *xxhash.Digest
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.n += int64(n)
	_, _ = r.digest.Write(p[:n])
	switch {
	case err == io.EOF && r.n != r.want.Bytes || r.n > r.want.Bytes:
		return n, corrupt("%s is damaged: it has %d bytes, not %d", r.name, r.n, r.want.Bytes)
	case err == io.EOF && r.digest.Sum64() != r.want.Digest:
		return n, corrupt("%s is damaged: it has the digest %016x, not %016x", r.name, r.digest.Sum64(), r.want.Digest)
	case err != nil && err != io.EOF:
		return n, fault.New("job.read", fault.Unavailable, "read %s: %w", r.name, err)
	}
	return n, err
}
