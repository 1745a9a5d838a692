package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/tensor"
)

// splitsKept is how many splits stay open: the two of a few jobs that run side
// by side.
const splitsKept = 8

// splits keeps the data used last open, because finding, checking and opening
// it takes longer than a small function runs. Nobody waits for another's
// opening. The zero value is ready.
type splits struct {
	mu     sync.Mutex // guards recent, and of each split users and kept
	recent []*split   // the one used last comes first
}

// split is the open data of one task's kind.
type split struct {
	name, digest string
	test         bool
	data         functions.Data
	files        []*os.File
	users        int
	kept         bool // by splits; closed once neither kept nor used
}

// get returns the split that a task reads; the caller gives it back by release.
// One whose files are not where they were is opened anew, or if that cannot be
// read as it is: a store that is away holds up nobody who has its data open. Errors: those of datasets, Unavailable (a file cannot be opened), Corrupt and
// Invalid (what it holds).
func (s *splits) get(ctx context.Context, datasets Datasets, plan *messages.RoundPlan, task functions.Task) (*split, error) {
	wanted := &split{name: plan.GetDataset(), digest: plan.GetDatasetDigest(), test: task == functions.Val}
	found := s.find(wanted)
	if found != nil && found.isInPlace() {
		return found, nil
	}
	if err := wanted.open(ctx, datasets); err != nil {
		wanted.close()
		if found != nil {
			return found, nil
		}
		return nil, err
	}
	if found != nil {
		s.drop(found)
	}
	s.keep(wanted)
	return wanted, nil
}

// drop gives a split back for whom another was opened.
func (s *splits) drop(used *split) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = slices.DeleteFunc(s.recent, func(k *split) bool { return k == used })
	used.kept = false
	used.users--
	used.closeUnused()
}

func (s *splits) find(wanted *split) *split {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.recent, func(k *split) bool {
		return k.name == wanted.name && k.digest == wanted.digest && k.test == wanted.test
	})
	if i < 0 {
		return nil
	}
	found := s.recent[i]
	copy(s.recent[1:], s.recent[:i])
	s.recent[0] = found
	found.users++
	return found
}

// keep takes in a split that its opener uses. If somebody else has opened the
// same one meanwhile both are kept, and the one that is not asked for goes.
func (s *splits) keep(opened *split) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened.users, opened.kept = 1, true
	s.recent = slices.Insert(s.recent, 0, opened)
	s.trim(splitsKept)
}

// trim lets all but the n used last go. It needs mu.
func (s *splits) trim(n int) {
	for len(s.recent) > n {
		last := len(s.recent) - 1
		s.recent[last].kept = false
		s.recent[last].closeUnused()
		s.recent = s.recent[:last]
	}
}

func (s *splits) release(used *split) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used.users--
	used.closeUnused()
}

// close closes what is not in use, and the rest with its last release.
func (s *splits) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim(0)
}

func (p *split) open(ctx context.Context, datasets Datasets) error {
	files, err := datasets.Files(ctx, p.name, p.digest)
	if err != nil {
		return err
	}
	pathX, pathY := files.TrainX, files.TrainY
	if p.test {
		pathX, pathY = files.TestX, files.TestY
	}
	if p.data.X, err = p.file(pathX); err != nil {
		return err
	}
	if p.data.Y, err = p.file(pathY); err != nil {
		return err
	}
	head, err := tensor.ParseNpy(p.data.X.R, p.data.X.Size)
	if err != nil {
		return fault.New("host.execute", fault.KindOf(err), "data set %q, %s: %w", p.name, pathX, err)
	}
	p.data.Name, p.data.Digest, p.data.Samples = p.name, p.digest, head.Rows()
	return nil
}

// isInPlace reports whether the paths still lead to the open files.
func (p *split) isInPlace() bool {
	for _, f := range p.files {
		there, err := os.Stat(f.Name())
		if err != nil {
			return false
		}
		if open, err := f.Stat(); err != nil || !os.SameFile(there, open) {
			return false
		}
	}
	return true
}

// input is the data for a runtime. Of files that are not where they were the
// paths are those under which the kernel shows what this process has open, which
// workers of its user can open.
func (p *split) input() functions.Data {
	data := p.data
	if !p.isInPlace() {
		data.X.Path, data.Y.Path = openPath(p.files[0]), openPath(p.files[1])
	}
	return data
}

func openPath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

func (p *split) file(path string) (functions.Input, error) {
	failed := func(err error) error {
		return fault.New("host.execute", fault.Unavailable, "open data set %q: %w", p.name, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return functions.Input{}, failed(err)
	}
	p.files = append(p.files, f)
	cache.Use(f)
	info, err := f.Stat()
	if err != nil {
		return functions.Input{}, failed(err)
	}
	return functions.Input{R: f, Size: info.Size(), Path: path}, nil
}

func (p *split) closeUnused() {
	if !p.kept && p.users == 0 {
		p.close()
	}
}

// close closes the files. They were only read, so its errors mean nothing.
func (p *split) close() {
	for _, f := range p.files {
		_ = f.Close()
	}
}
