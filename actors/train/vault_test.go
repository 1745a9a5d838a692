package train_test

import (
	"bytes"
	"context"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// vault keeps states in memory, once it works.
type vault struct {
	from  *messages.JobState
	fails []error // of the next calls of Save
	warns string  // what Warning says
	ends  []error // of the next calls of End, once the result is stored
	beats error   // what Beat says
	shut  error   // what Open says
	saves []*messages.JobState
	files map[string][]byte
	tries int                         // calls of Save
	saved func(st *messages.JobState) // is told of each that succeeds; nil: nobody is
}

// Open implements train.Vault.
func (v *vault) Open(_ context.Context, ref *messages.TensorRef) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(v.files[ref.GetKey()])), v.shut
}

// From implements train.Vault.
func (v *vault) From() *messages.JobState { return v.from }

// Warning implements train.Vault.
func (v *vault) Warning() string { return v.warns }

// Beat implements train.Vault.
func (v *vault) Beat(context.Context) error { return v.beats }

// Save implements train.Vault.
func (v *vault) Save(ctx context.Context, st *messages.JobState, open func(context.Context, *messages.TensorRef) (plane.Blob, error)) error {
	v.tries++
	if len(v.fails) > 0 {
		err := v.fails[0]
		v.fails = v.fails[1:]
		if err != nil {
			return err
		}
	}
	kept := proto.CloneOf(st)
	for _, t := range train.Tensors(kept) {
		blob, err := open(ctx, t.Ref)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
		if err != nil {
			return err
		}
		_ = blob.Close()
		if v.files == nil {
			v.files = map[string][]byte{}
		}
		v.files[t.Name] = content
		t.Set(&messages.TensorRef{Key: t.Name, Bytes: uint64(len(content))})
	}
	v.saves = append(v.saves, kept)
	if v.saved != nil {
		v.saved(kept)
	}
	return nil
}

// End implements train.Vault.
func (v *vault) End(ctx context.Context, st *messages.JobState, result func(context.Context) error) error {
	if err := result(ctx); err != nil {
		return err
	}
	if len(v.ends) > 0 {
		err := v.ends[0]
		v.ends = v.ends[1:]
		return err
	}
	return v.Save(ctx, st, nil)
}

// last returns the newest state that is not an ended job's.
func (v *vault) last() *messages.JobState { return v.saves[len(v.saves)-1] }
