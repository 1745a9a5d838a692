package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
)

// gathered is a folder with links to the files of a data set, under the names by
// which a folder of such files is known.
type gathered struct {
	path  string
	parts []client.Part
}

// gather makes it; the caller removes it. NotFound: a file; Unavailable.
func gather(parts []client.Part) (_ gathered, err error) {
	const op = "dataset.gather"
	unavailable := func(err error) error { return fault.New(op, fault.Unavailable, "%w", err) }
	g := gathered{parts: parts}
	if g.path, err = os.MkdirTemp("", "troupe-dataset-"); err != nil {
		return g, unavailable(err)
	}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	for _, part := range parts {
		if _, err := os.Stat(part.Path); errors.Is(err, fs.ErrNotExist) {
			return g, fault.New(op, fault.NotFound, "there is no file %q", part.Path)
		}
		real, err := filepath.Abs(part.Path)
		if err == nil {
			err = os.Symlink(real, filepath.Join(g.path, part.Field+".npy"))
		}
		if err != nil {
			return g, unavailable(err)
		}
	}
	return g, nil
}

// called is what errors call the folder: what is in it, as people know it.
func (g gathered) called(name string) string {
	var parts []string
	for _, part := range g.parts {
		parts = append(parts, part.Field+" "+part.Path)
	}
	return fmt.Sprintf("data set %q of %s", name, strings.Join(parts, ", "))
}

// remove removes the folder, and no file that it leads to.
func (g gathered) remove() { _ = os.RemoveAll(g.path) }
