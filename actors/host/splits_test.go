package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/dataset"
)

// counted counts how often files are asked for.
type counted struct {
	files
	asked int
}

func (c *counted) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	c.asked++
	if name == "gone" {
		return dataset.Files{}, fault.New("test.files", fault.NotFound, "no data set %q", name)
	}
	return c.files.Files(ctx, name, digest)
}

// The data of a job is found and opened once, not once an attempt.
func TestDataIsOpenedOnce(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	data := &counted{files: newFiles(t)}
	b.Datasets = data
	for range 3 {
		_, err := b.Execute(t.Context(), b.train(), 0)
		require.NoError(t, err)
	}
	require.Equal(t, 1, data.asked)
	for range 2 {
		gone := b.train()
		gone.Plan.Dataset = "gone"
		_, err := b.Execute(t.Context(), gone, 0)
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	}
	require.Equal(t, 3, data.asked, "that something is not there is not remembered")
}

// Data that many others have pushed out stays open for whoever still reads it,
// and so does all of it when the runner is told to close it.
func TestDataStaysOpenWhileItIsRead(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	read := func(inv functions.Invocation) error {
		_, err := inv.Data.X.R.ReadAt(make([]byte, 8), 0)
		return err
	}
	answer := b.runtime.run
	var before functions.Invocation
	depth := 0
	b.runtime.run = func(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
		if depth++; depth <= 2*host.SplitsKept {
			other := b.train()
			other.Plan.DatasetDigest = fmt.Sprint(depth)
			if _, err := b.Execute(ctx, other, depth); err != nil {
				return functions.Answer{}, err
			}
		} else {
			require.NoError(t, host.NewLocal(b.Executor).Await(ctx))
		}
		before = inv
		if err := read(inv); err != nil {
			return functions.Answer{}, err
		}
		return answer(ctx, inv)
	}
	_, err := b.Execute(t.Context(), b.train(), 0)
	require.NoError(t, err)
	require.Error(t, read(before), "closed once nobody reads it any more")
}

// Attempts that open the same data at the same time do not close it for each
// other.
func TestDataIsSharedByAttemptsThatRunSideBySide(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	var attempts sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		attempts.Go(func() {
			inv := b.train()
			inv.Plan.DatasetDigest = fmt.Sprint(i % (2 * host.SplitsKept))
			_, errs[i] = b.Execute(t.Context(), inv, i)
		})
	}
	attempts.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, host.NewLocal(b.Executor).Await(t.Context()))
}
