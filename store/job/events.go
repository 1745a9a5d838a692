package job

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"strconv"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	eventsPrefix = "events-"
	eventsSuffix = ".jsonl"

	maxSegment = 64 << 20 // bytes
)

// PutEvents keeps a segment of the events of an incarnation, in place of what
// that segment had before: all of its lines, each JSON and ending with a line
// feed. Segments count from 0; incarnation 0 is before the first claim. One
// writer at a time, which is the caller's to see to. Invalid: the id, a last
// line without its end, more than 64 MiB.
func (c *Catalog) PutEvents(ctx context.Context, id string, incarnation, segment uint64, lines []byte) error {
	const op = "job.events"
	if err := checkID(op, id); err != nil {
		return err
	}
	if len(lines) > maxSegment || len(lines) > 0 && lines[len(lines)-1] != '\n' {
		return fault.New(op, fault.Invalid, "job %s: a segment of %d bytes: want whole lines, and at most %d", id, len(lines), maxSegment)
	}
	err := c.store.Put(ctx, eventsKey(id, incarnation, segment), func(w io.Writer) error {
		_, err := w.Write(lines)
		return err
	})
	if err != nil {
		return fault.New(op, fault.KindOf(err), "events of job %s: %w", id, err)
	}
	return nil
}

// AddEvents keeps events behind all segments of an incarnation that are there.
// Otherwise as PutEvents.
func (c *Catalog) AddEvents(ctx context.Context, id string, incarnation uint64, lines []byte) error {
	const op = "job.events"
	if err := checkID(op, id); err != nil {
		return err
	}
	next, err := c.NextSegment(ctx, id, incarnation)
	if err != nil {
		return err
	}
	return c.PutEvents(ctx, id, incarnation, next, lines)
}

// NextSegment returns the number of the segment behind all of an incarnation that
// are there.
func (c *Catalog) NextSegment(ctx context.Context, id string, incarnation uint64) (uint64, error) {
	segments, err := c.numbered(ctx, key(id, incarnation, eventsPrefix), eventsSuffix)
	if err != nil {
		return 0, fault.New("job.events", fault.KindOf(err), "events of job %s: %w", id, err)
	}
	if n := len(segments); n > 0 {
		return segments[n-1] + 1, nil
	}
	return 0, nil
}

// Events yields the events of an incarnation, in order: a line each, without
// its end, which is the caller's to keep. The last line of a segment is left
// out if it is cut or damaged. Another that is damaged is a Corrupt error in
// its place, and the walk goes on; it ends after any other error.
func (c *Catalog) Events(ctx context.Context, id string, incarnation uint64) iter.Seq2[[]byte, error] {
	const op = "job.events"
	return func(yield func([]byte, error) bool) {
		if err := checkID(op, id); err != nil {
			yield(nil, err)
			return
		}
		segments, err := c.numbered(ctx, key(id, incarnation, eventsPrefix), eventsSuffix)
		for i := 0; err == nil && i < len(segments); i++ {
			var text []byte
			name := eventsKey(id, incarnation, segments[i])
			text, err = store.Read(ctx, c.store, name, maxSegment)
			if fault.KindOf(err) == fault.NotFound {
				return // the job is being deleted
			}
			if err == nil && !yieldLines(text, name, yield) {
				return
			}
		}
		if err != nil {
			yield(nil, fault.New(op, fault.KindOf(err), "events of job %s: %w", id, err))
		}
	}
}

// yieldLines yields the lines of a segment, and reports whether to go on.
func yieldLines(text []byte, name string, yield func([]byte, error) bool) bool {
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		var err error
		if !whole || !json.Valid(line) {
			if len(rest) == 0 {
				return true
			}
			line, err = nil, fault.New("job.events", fault.Corrupt, "%s is damaged: line %d is no JSON", name, n)
		}
		if !yield(line, err) {
			return false
		}
	}
	return true
}

// Incarnations returns the numbers under which a job has anything, ascending: 0
// too, if there are events from before its first claim.
func (c *Catalog) Incarnations(ctx context.Context, id string) ([]uint64, error) {
	const op = "job.incarnations"
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	numbers, err := c.incarnations(ctx, id)
	if err != nil {
		return nil, fault.New(op, fault.KindOf(err), "incarnations of job %s: %w", id, err)
	}
	return numbers, nil
}

func eventsKey(id string, incarnation, segment uint64) string {
	return key(id, incarnation, eventsPrefix+strconv.FormatUint(segment, 10)+eventsSuffix)
}
