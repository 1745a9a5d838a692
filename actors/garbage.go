package actors

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/gc"
	"github.com/troupe-ml/troupe/store/job"
)

// FindGarbage lists what a store holds that nobody needs, if it is older than
// that now, and removes nothing. Kinds of error are those of gc.Find.
func FindGarbage(ctx context.Context, bucket store.Store, now time.Time, older time.Duration) (gc.Report, error) {
	return gc.Find(ctx, garbageDeps(bucket), gc.Options{Now: now, Older: older})
}

// CollectGarbage removes it, and says what it removed. Companies on the same
// store are not disturbed.
func CollectGarbage(ctx context.Context, bucket store.Store, now time.Time, older time.Duration) (gc.Report, error) {
	return gc.Collect(ctx, garbageDeps(bucket), gc.Options{Now: now, Older: older})
}

func garbageDeps(bucket store.Store) gc.Deps {
	return gc.Deps{
		Store: bucket, Jobs: job.New(bucket), Owner: job.Owner{Node: "gc", Boot: newID(), PID: os.Getpid()},
		Read: gc.Reader{Uses: usesOf, Ended: hasEnded},
	}
}

// usesOf reads what a stored task needs.
func usesOf(doc json.RawMessage) (gc.Uses, error) {
	stored := &messages.StoredTask{}
	if err := readJSON.Unmarshal(doc, stored); err != nil {
		return gc.Uses{}, fault.New("actors.garbage", fault.Corrupt, "a task is damaged: %w", err)
	}
	t := stored.GetTask()
	return gc.Uses{Function: t.GetFunctionVersion(), Dataset: t.GetDatasetDigest()}, nil
}

// hasEnded reads whether a stored state is that of a job that has ended.
func hasEnded(doc json.RawMessage) (bool, error) {
	state := &messages.JobState{}
	if err := readJSON.Unmarshal(doc, state); err != nil {
		return false, fault.New("actors.garbage", fault.Corrupt, "a state is damaged: %w", err)
	}
	return state.GetResult() != nil, nil
}
