package job

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// fileExt ends the name of every file of a state: what pruning may take.
const fileExt = ".safetensors"

// Source is a file to be saved.
type Source struct {
	Name  string // one part of a key, ending with ".safetensors"
	Bytes int64
	// Write writes exactly Bytes. It may be called again, by a later Save, and
	// then writes the same.
	Write func(io.Writer) error
}

// Save makes doc and files the job's state. Files of a name that an earlier
// Save of this claim wrote are the same bytes and are not written again, as
// long as a state names them.
//
// It writes the files, then the state before as previous.json, then state.json;
// at every moment one of the two that were there is whole. Then it removes what
// neither of the two names, and from the second state on what lower
// incarnations left but their claims. What cannot be removed is tried again by
// the next Save.
//
// doc is stored without insignificant white space. One Save runs at a time, a
// second one waits. After an error the state may be the old or the new one;
// Save may be repeated, with the same or a newer state. What another store has
// that took the place of this one, such as a copy of earlier, is found out before
// it is relied on; all of one Save is in one of them, or it fails. Conflict: there is a
// higher claim, or this one was released; Invalid: doc is no JSON, a name, or a
// Write that does not write what it says.
func (c *Claim) Save(ctx context.Context, doc json.RawMessage, files []Source) error {
	const op = "job.save"
	if err := checkSources(op, doc, files); err != nil {
		return err
	}
	c.saves.Lock()
	defer c.saves.Unlock()
	if err := c.save(ctx, op, doc, files); fault.KindOf(err) == fault.Conflict {
		return err // which says whose the job is
	} else if err != nil {
		return fault.New(op, fault.KindOf(err), "save job %s: %w", c.id, err)
	}
	return nil
}

func (c *Claim) save(ctx context.Context, op string, doc json.RawMessage, files []Source) error {
	ctx, err := c.beginSave(ctx, "job.save.begin")
	if err != nil {
		return err
	}
	c.pruneAhead(ctx, files)
	b := body{Job: c.id, Incarnation: c.Incarnation(), Files: []File{}, Doc: doc}
	for _, source := range files {
		f, err := c.saveFile(ctx, source)
		if err != nil {
			return err
		}
		b.Files = append(b.Files, f)
	}
	object, err := encode(b)
	if err != nil {
		return fault.New(op, fault.Invalid, "state: %w", err)
	}
	// Files may have taken long: an owner that slept through a take-over in the
	// meantime shall not even touch its own states.
	if err := c.passIfOwner(ctx, "job.save.files"); err != nil {
		return err
	}
	if err := c.saveState(ctx, saved{object: object, files: b.Files}); err != nil {
		return err
	}
	if err := c.passIfOwner(ctx, "job.save.state"); err != nil {
		return err
	}
	c.prune(ctx)
	return passFault(failpoint.Pass("job.save.end"))
}

// beginSave checks the claim and what it knows of its folder. It returns the
// context for the rest: no state shall lie elsewhere than its files.
func (c *Claim) beginSave(ctx context.Context, point string) (context.Context, error) {
	ctx, life, err := store.Pin(ctx, c.catalog.store)
	if err == nil {
		err = c.passIfOwner(ctx, point)
	}
	if err == nil {
		err = c.recall(ctx, life)
	}
	if err == nil {
		c.saves.state.settle(ctx, c.catalog, c.key(stateName))
	}
	return ctx, err
}

// passIfOwner checks the claim, then passes the failpoint.
func (c *Claim) passIfOwner(ctx context.Context, point string) error {
	if err := c.own.Check(ctx); err != nil {
		return err
	}
	return passFault(failpoint.Pass(point))
}

// saveFile writes a file unless it is there.
func (c *Claim) saveFile(ctx context.Context, source Source) (File, error) {
	const op = "job.save"
	if f, ok := c.saves.files[source.Name]; ok && f.Bytes >= 0 {
		if f.Bytes != source.Bytes {
			return File{}, fault.New(op, fault.Invalid, "file %s has %d bytes, it was saved with %d: name it otherwise", f.Name, source.Bytes, f.Bytes)
		}
		return f, nil
	}
	c.saves.files[source.Name] = File{Name: source.Name, Bytes: -1} // to be pruned, if it is there at all
	f := File{Name: source.Name, Bytes: source.Bytes}
	err := c.catalog.store.Put(ctx, c.key(source.Name), func(w io.Writer) error {
		count := &countingWriter{digest: xxhash.New()}
		if err := source.Write(io.MultiWriter(w, count)); err != nil {
			return err
		}
		if count.n != source.Bytes {
			return fault.New(op, fault.Invalid, "file %s was announced with %d bytes, %d were written", source.Name, source.Bytes, count.n)
		}
		f.Digest = count.digest.Sum64()
		return nil
	})
	if err != nil {
		return File{}, err
	}
	c.saves.files[source.Name] = f
	return f, passFault(failpoint.Pass("job.save.file"))
}

// saveState moves the states on: the newest becomes the previous one.
func (c *Claim) saveState(ctx context.Context, next saved) error {
	s := &c.saves
	if s.state.object != nil && !bytes.Equal(s.state.object, next.object) {
		if err := c.putState(ctx, previousName, &s.previous, s.before(next)); err != nil {
			return err
		}
		if err := passFault(failpoint.Pass("job.save.previous")); err != nil {
			return err
		}
	}
	return c.putState(ctx, stateName, &s.state, next)
}

// putState writes what one of the two state objects shall be, unless it is.
func (c *Claim) putState(ctx context.Context, name string, there *saved, next saved) error {
	if there.is(next.object) {
		return nil
	}
	next.tried = nil
	there.tried = &next
	err := c.catalog.store.Put(ctx, c.key(name), func(w io.Writer) error {
		_, err := w.Write(next.object)
		return err
	})
	if err == nil {
		*there = next
	}
	return err
}

// countingWriter counts and digests.
type countingWriter struct {
	n      int64
	digest *xxhash.Digest
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return w.digest.Write(p)
}

func checkSources(op string, doc json.RawMessage, files []Source) error {
	if !json.Valid(doc) {
		return fault.New(op, fault.Invalid, "the state, of %d bytes, is no JSON", len(doc))
	}
	names := map[string]bool{}
	for _, f := range files {
		if err := checkName(op, f.Name); err != nil {
			return err
		}
		if f.Bytes < 0 || names[f.Name] {
			return fault.New(op, fault.Invalid, "file %s of %d bytes: want a length, and each name once", f.Name, f.Bytes)
		}
		names[f.Name] = true
	}
	return nil
}

// checkName checks the name of a file.
func checkName(op, name string) error {
	if err := store.CheckKey(name); err != nil || strings.Contains(name, "/") || !strings.HasSuffix(name, fileExt) {
		return fault.New(op, fault.Invalid, "file name %q: want one part of a key that ends with %s", name, fileExt)
	}
	return nil
}

// passFault gives what a failpoint answers the kind that a store would.
func passFault(err error) error {
	if err != nil {
		return fault.New("job.save", fault.Unavailable, "%w", err)
	}
	return nil
}
