package gc

import (
	"context"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/job"
)

// Collect finds garbage anew and removes it. The report says what it removed,
// after an error too; then Collect may be repeated. What came into use
// meanwhile stays. Kinds of error are those of Find.
func Collect(ctx context.Context, deps Deps, opts Options) (Report, error) {
	found, err := Find(ctx, deps, opts)
	if err != nil {
		return Report{}, err
	}
	done := Report{Warnings: found.Warnings}
	for items := found.Items; len(items) > 0; {
		n := 1
		for n < len(items) && items[n].Reason == items[0].Reason && items[n].group == items[0].group {
			n++
		}
		err := collect(ctx, deps, opts, items[:n], &done)
		if err != nil && fault.KindOf(err) != fault.Conflict { // which is somebody who uses it
			return done, fault.New("gc.collect", fault.KindOf(err), "remove garbage: %w", err)
		}
		items = items[n:]
	}
	return done, nil
}

// collect removes what is garbage for one reason.
func collect(ctx context.Context, deps Deps, opts Options, items []Item, done *Report) error {
	keep := func(Item) (bool, error) { return false, nil }
	switch first := items[0]; first.Reason {
	case HalfDeleted:
		_, err := deps.Jobs.Task(ctx, first.group)
		if fault.KindOf(err) != fault.NotFound {
			return err
		}
		if err := deps.Jobs.Delete(ctx, first.group); err != nil {
			return err
		}
	case Submission:
		if first.group == "" {
			break // damaged
		}
		if _, err := deps.Jobs.Task(ctx, first.group); fault.KindOf(err) != fault.NotFound {
			return err
		}
	case Ended:
		claim, _, err := deps.Jobs.Claim(ctx, first.group, deps.Owner, job.Sighting{})
		if err != nil {
			return err
		}
		defer func() { _ = claim.Release() }() // at worst others wait for this owner to look dead
		if over, err := isOver(ctx, deps, opts, first.group); err != nil || !over {
			return err
		}
	case Function, Dataset, Unfinished:
		keep = func(i Item) (bool, error) { return isBack(ctx, deps, i) }
	}
	return remove(ctx, deps, items, keep, done)
}

// isBack reports whether what an item belongs to was imported again since it
// was found.
func isBack(ctx context.Context, deps Deps, i Item) (bool, error) {
	o, err := deps.Store.Stat(ctx, i.group+manifestName)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	return !isManifest(i) || !o.ModTime.Equal(i.modTime), nil
}

// remove removes items, up to the first that is to be kept.
func remove(ctx context.Context, deps Deps, items []Item, keep func(Item) (bool, error), done *Report) error {
	for _, i := range items {
		if kept, err := keep(i); err != nil || kept {
			return err
		}
		if err := deps.Store.Delete(ctx, i.Key); err != nil {
			return err
		}
		done.Items = append(done.Items, i)
		done.Bytes += i.Bytes
	}
	return nil
}
