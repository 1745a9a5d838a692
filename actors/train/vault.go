package train

import (
	"context"
	"io"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// Vault is what one incarnation of a job keeps in the store, and may, because
// it owns the job. All methods are called off the actor, by one goroutine at a
// time but for Beat. Errors: Conflict once a later incarnation owns the job,
// Unavailable while the store cannot be reached or is full.
type Vault interface {
	// From returns the state that the incarnation is to start from, nil for
	// none: its tensors are files of the store, for Open.
	From() *messages.JobState
	// Warning says what is wrong with what the store has, that people should know
	// if the job goes on from that; "" for nothing.
	Warning() string
	// Open opens a tensor of From. The reader ends with Corrupt if what it gave
	// is not what was stored. NotFound.
	Open(ctx context.Context, ref *messages.TensorRef) (io.ReadCloser, error)
	// Save stores a state with its tensors, which open gives by their
	// references, all or nothing. The state is not changed.
	Save(ctx context.Context, st *messages.JobState, open func(context.Context, *messages.TensorRef) (plane.Blob, error)) error
	// End stores the last state of a job that has SUCCEEDED, all or nothing, once
	// result has stored its result, which may still change the state: under the
	// context that it is given, so that both come to lie in the same store. What
	// the job has stored to go on from goes then. A Save that comes after takes
	// the end back. Errors of result are returned as they are.
	End(ctx context.Context, st *messages.JobState, result func(context.Context) error) error
	// Beat tells others that the owner lives.
	Beat(ctx context.Context) error
}
