package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	fails error
}

func (c *counted) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	c.asked++
	if name == "gone" {
		return dataset.Files{}, fault.New("test.files", fault.NotFound, "no data set %q", name)
	}
	if c.fails != nil {
		return dataset.Files{}, c.fails
	}
	return c.files.Files(ctx, name, digest)
}

// The data of a job is found and opened once, not once an attempt.
func TestDataIsOpenedOnce(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	data := &counted{files: newFiles(t)}
	b.Datasets = data
	for range 3 {
		_, err := b.Execute(t.Context(), b.train(), 0, nil)
		require.NoError(t, err)
	}
	require.Equal(t, 1, data.asked)
	for range 2 {
		gone := b.train()
		gone.Plan.Dataset = "gone"
		_, err := b.Execute(t.Context(), gone, 0, nil)
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
			if _, err := b.Execute(ctx, other, depth, nil); err != nil {
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
	_, err := b.Execute(t.Context(), b.train(), 0, nil)
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
			_, errs[i] = b.Execute(t.Context(), inv, i, nil)
		})
	}
	attempts.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, host.NewLocal(b.Executor).Await(t.Context()))
}

// Data that is open can be read though its folder is moved away, under whatever
// path; once it is back, or a copy is, it is read there.
func TestDataThatIsMovedAway(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	data := &counted{files: newFiles(t)}
	b.Datasets = data
	var at functions.Data
	answer := b.runtime.run
	b.runtime.run = func(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
		at = inv.Data
		return answer(ctx, inv)
	}
	train := func() {
		t.Helper()
		_, err := b.Execute(t.Context(), b.train(), 0, nil)
		require.NoError(t, err)
	}
	train()
	require.Equal(t, data.files.TrainX, at.X.Path)
	content, err := os.ReadFile(at.X.Path)
	require.NoError(t, err)

	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(data.files.TrainX, away))
	data.fails = fault.New("test.files", fault.Unavailable, "the store is away")
	train()
	there, err := os.ReadFile(at.X.Path)
	require.NoError(t, err, "another process of this user can read it")
	require.Equal(t, content, there)
	require.Equal(t, 2, data.asked)

	require.NoError(t, os.WriteFile(data.files.TrainX, content, 0o600))
	train()
	require.NotEqual(t, data.files.TrainX, at.X.Path, "what is there may be anything")
	data.fails = nil
	train()
	require.Equal(t, data.files.TrainX, at.X.Path)
	require.Equal(t, 4, data.asked)
	train()
	require.Equal(t, 4, data.asked)
}
