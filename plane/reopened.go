package plane

import "context"

// openAtOnce is how many blobs whoever reads many at a time keeps open.
const openAtOnce = 256

// opener is what Space has to open blobs.
type opener interface {
	Open(ctx context.Context, ref Ref) (Blob, error)
}

// OpenOneOf opens one of n blobs that are read side by side. Of very many each is
// open only while it is read, so that n is not bounded by the number of files that
// a process may have. Errors are those of Space.Open, of reading too.
func OpenOneOf(ctx context.Context, space opener, ref Ref, n int) (Blob, error) {
	blob, err := space.Open(ctx, ref)
	if err != nil || n <= openAtOnce {
		return blob, err
	}
	return &reopened{Blob: blob, ctx: ctx, space: space, ref: ref}, blob.Close()
}

// reopened is a blob that is open only while it is read.
type reopened struct {
	Blob  // closed; knows its size
	ctx   context.Context
	space opener
	ref   Ref
}

// ReadAt opens, reads and closes.
func (r *reopened) ReadAt(p []byte, off int64) (int, error) {
	blob, err := r.space.Open(r.ctx, r.ref)
	if err != nil {
		return 0, err
	}
	defer blob.Close()
	return blob.ReadAt(p, off)
}

// Close does nothing: nothing is open.
func (*reopened) Close() error { return nil }
