package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	submissionFolder = "submissions/"
	maxSubmission    = 1 << 10 // bytes
)

// Submission says which job a submission with that key is about: id, for who
// comes first, and for everybody after that, in other processes too, the same.
//
// The first may die, or fail, before it creates the job. So whoever finds no
// task under the winner's id creates it there.
//
// Invalid: an empty key, or the id; Corrupt: what was kept is damaged.
func (c *Catalog) Submission(ctx context.Context, key, id string) (winner string, first bool, err error) {
	const op = "job.submission"
	if err := checkID(op, id); err != nil {
		return "", false, err
	}
	if key == "" {
		return "", false, fault.New(op, fault.Invalid, "job %s: an empty submission key is none", id)
	}
	name := submissionKey(key)
	err = c.store.PutIfAbsent(ctx, name, func(w io.Writer) error {
		_, err := io.WriteString(w, id+"\n")
		return err
	})
	if err == nil {
		return id, true, nil
	}
	if fault.KindOf(err) != fault.Conflict {
		return "", false, fault.New(op, fault.KindOf(err), "submission of job %s: %w", id, err)
	}
	winner, err = c.Submitted(ctx, path.Base(name))
	return winner, false, err
}

// Submitted returns the job of a submission, by the name of its object below
// submissions/. NotFound; Corrupt.
func (c *Catalog) Submitted(ctx context.Context, name string) (string, error) {
	const op = "job.submission"
	key := submissionFolder + name
	there, err := store.Read(ctx, c.store, key, maxSubmission)
	if err != nil {
		return "", fault.New(op, fault.KindOf(err), "submission: %w", err)
	}
	id, whole := strings.CutSuffix(string(there), "\n")
	if !whole || checkID(op, id) != nil {
		return "", fault.New(op, fault.Corrupt, "%s is damaged: submit with another key", c.store.URL(key))
	}
	return id, nil
}

func submissionKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return submissionFolder + hex.EncodeToString(sum[:])
}
