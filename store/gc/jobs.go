package gc

import (
	"context"
	"path"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	jobsPrefix  = "jobs/"
	tensorsExt  = ".safetensors"
	submissions = "submissions/"
	probes      = "probes/"
)

// jobs looks at each job: what it uses, and what of it is garbage.
func (f *finder) jobs(ctx context.Context) error {
	ids, err := f.deps.Jobs.IDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		task, err := f.deps.Jobs.Task(ctx, id)
		switch fault.KindOf(err) {
		case fault.NotFound:
			err = f.halfDeleted(ctx, id)
		case fault.Corrupt:
			f.alive[id], f.unsure = true, true
			f.warn(err)
			err = nil
		default:
			if err != nil {
				return err
			}
			f.alive[id] = true
			if uses, uerr := f.deps.Read.Uses(task); uerr != nil {
				f.unsure = true
				f.warn(fault.New("gc.jobs", fault.Corrupt, "job %s: its task is damaged: %w", id, uerr))
			} else {
				f.used[uses.Function], f.used[uses.Dataset] = true, true
			}
			err = f.job(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) halfDeleted(ctx context.Context, id string) error {
	objects, err := f.list(ctx, jobsPrefix+id+"/")
	if err == nil && f.isOlder(Grace, objects...) {
		f.add(HalfDeleted, id, objects...)
	}
	return err
}

// job looks for what a job that is there does not need.
func (f *finder) job(ctx context.Context, id string) error {
	over, err := isOver(ctx, f.deps, f.opts, id)
	if fault.KindOf(err) == fault.Corrupt {
		f.warn(err)
		return nil
	}
	if err != nil {
		return err
	}
	lower, err := f.deps.Jobs.Leftovers(ctx, id)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, o := range lower {
		if f.isOlder(Grace, o) {
			f.add(Lower, id, o)
			taken[o.Key] = true
		}
	}
	if !over {
		return nil
	}
	objects, err := f.list(ctx, jobsPrefix+id+"/incarnations/")
	for _, o := range objects {
		if strings.HasSuffix(o.Key, tensorsExt) && !taken[o.Key] {
			f.add(Ended, id, o)
		}
	}
	return err
}

// isOver reports whether a job has ended, and nothing has happened to it for
// long enough. Corrupt: nobody can say.
func isOver(ctx context.Context, deps Deps, opts Options, id string) (bool, error) {
	state, err := deps.Jobs.Peek(ctx, id)
	if err != nil || state == nil {
		return false, err
	}
	ended, err := deps.Read.Ended(state.Doc)
	if err != nil {
		return false, fault.New("gc.jobs", fault.Corrupt, "job %s: its state is damaged: %w", id, err)
	}
	if !ended {
		return false, nil
	}
	for o, err := range deps.Store.List(ctx, jobsPrefix+id+"/") {
		if err != nil {
			return false, err
		}
		ext := path.Ext(o.Key) // states, tensors, requests to resume it; not claims, which a collector makes too
		if (ext == ".json" || ext == tensorsExt) && opts.Now.Sub(o.ModTime) < opts.Older {
			return false, nil
		}
	}
	return true, nil
}

// submissions looks for keys of jobs that were deleted. That of a job which is
// just being submitted is young.
func (f *finder) submissions(ctx context.Context) error {
	objects, err := f.list(ctx, submissions)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !f.isOlder(max(f.opts.Older, Grace), o) {
			continue
		}
		id, err := f.deps.Jobs.Submitted(ctx, path.Base(o.Key))
		switch kind := fault.KindOf(err); {
		case kind == fault.NotFound, f.alive[id]:
		case err != nil && kind != fault.Corrupt:
			return err
		default: // damaged ones, too: they help nobody
			f.add(Submission, id, o)
		}
	}
	return nil
}

func (f *finder) probes(ctx context.Context) error {
	objects, err := f.list(ctx, probes)
	for _, o := range objects {
		if f.isOlder(Grace, o) {
			f.add(Probe, "", o)
		}
	}
	return err
}

// byFolder groups objects by the folder that is depth parts deep, in order.
func byFolder(objects []store.Object, depth int) (folders []string, in map[string][]store.Object) {
	in = map[string][]store.Object{}
	for _, o := range objects {
		parts := strings.Split(o.Key, "/")
		if len(parts) <= depth {
			continue
		}
		folder := strings.Join(parts[:depth], "/") + "/"
		if len(in[folder]) == 0 {
			folders = append(folders, folder)
		}
		in[folder] = append(in[folder], o)
	}
	return folders, in
}
