package job

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

const maxRequest = 1 << 20 // bytes

// AddRequest keeps what somebody asks of a job, for whoever owns it or will.
// Numbers count from 1 without gaps, in the order in which requests were
// accepted, those of other processes included. After an error the request may
// be there all the same: one that is added again is obeyed twice, so it must
// mean the same twice. NotFound: no such job; Invalid: doc is no JSON of at most
// 1 MiB.
func (c *Catalog) AddRequest(ctx context.Context, id string, doc json.RawMessage) (seq uint64, err error) {
	const op = "job.request"
	if err := checkID(op, id); err != nil {
		return 0, err
	}
	if !json.Valid(doc) || len(doc) > maxRequest {
		return 0, fault.New(op, fault.Invalid, "job %s: the request, of %d bytes, is no JSON of at most %d", id, len(doc), maxRequest)
	}
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "request to job %s: %w", id, err) }
	if _, err := c.store.Stat(ctx, taskKey(id)); fault.KindOf(err) == fault.NotFound {
		return 0, c.noJob(op, id)
	} else if err != nil {
		return 0, wrap(err)
	}
	taken, err := c.numbered(ctx, requestsFolder(id), ".json")
	if err != nil {
		return 0, wrap(err)
	}
	if len(taken) > 0 {
		seq = taken[len(taken)-1]
	}
	for {
		seq++
		err := c.store.PutIfAbsent(ctx, requestKey(id, seq), func(w io.Writer) error {
			_, err := w.Write(doc)
			return err
		})
		if err == nil {
			return seq, nil
		}
		if fault.KindOf(err) != fault.Conflict { // which is another's request
			return 0, wrap(err)
		}
	}
}

// Requests returns what was asked of a job, in order: that at index i has the
// number i+1. One that is damaged is the JSON null, so that those behind it are
// obeyed. There may be none; NotFound is not told from that.
func (c *Catalog) Requests(ctx context.Context, id string) ([]json.RawMessage, error) {
	const op = "job.requests"
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "requests to job %s: %w", id, err) }
	numbers, err := c.numbered(ctx, requestsFolder(id), ".json")
	if err != nil {
		return nil, wrap(err)
	}
	docs := []json.RawMessage{}
	for _, n := range numbers {
		for uint64(len(docs)) < n-1 {
			docs = append(docs, json.RawMessage("null")) // lost, or the walk missed it: it is there next time
		}
		doc, err := store.Read(ctx, c.store, requestKey(id, n), maxRequest)
		if fault.KindOf(err) == fault.NotFound {
			break // the job is being deleted
		}
		if err != nil {
			return nil, wrap(err)
		}
		if !json.Valid(doc) {
			doc = json.RawMessage("null")
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// numbered returns the numbers n of the objects prefix+n+suffix, ascending.
func (c *Catalog) numbered(ctx context.Context, prefix, suffix string) ([]uint64, error) {
	numbers := []uint64{}
	for o, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if name, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), suffix); ok {
			if n, ok := claim.ParseNumber(name); ok {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func requestsFolder(id string) string { return jobFolder(id) + "requests/" }

func requestKey(id string, seq uint64) string {
	return requestsFolder(id) + strconv.FormatUint(seq, 10) + ".json"
}
