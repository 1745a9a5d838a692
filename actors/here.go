package actors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
)

// here is what the names in a task mean to who typed them in a folder: a bare
// name is that of a folder here, with a program or a data set in it, before it is
// one in the store. As a rule the store has what the folder held before, and to
// train on that, and not on what is there now, is nobody's wish. Built-in ones
// come first. Where a name means two things a warning says which it is.
//
// A server has no folder that its users are in: its names are those of the store.
type here struct {
	warnings []string
	function function.Info // in the store, under the name of a folder; or none
	dataset  dataset.Info  // likewise
}

// lookHere makes paths of the names of folders here.
func (c *Company) lookHere(ctx context.Context, t *messages.TrainTask) *here {
	h := &here{}
	switch name := t.GetFunctionName(); {
	case isPath(name) || !hasMain(name):
	case c.native.Has(name):
		h.warn("function %q: the built-in one is used, and not the folder here; name that ./%s", name, name)
	default:
		h.function, _ = c.programs.find(ctx, name) // none, or none that can be read
		t.FunctionName = "./" + name
	}
	switch name := t.GetDataset(); {
	case dataset.IsPath(name):
	case name != dataset.Digits && dataset.IsFolder(name):
		h.dataset, _ = c.datasets.Open(ctx, name, dataset.Options{})
		t.Dataset = "./" + name
	default:
		if _, err := os.Lstat(name); err == nil {
			h.warn("data set %q: the one of that name is used, built-in or in the store, and not what is called that here; name that ./%s", name, name)
		}
	}
	return h
}

// found says where what was found is not what the store had.
func (h *here) found(t *messages.TrainTask) []string {
	if h.function.Name == t.GetFunctionName() && h.function.Version != t.GetFunctionVersion() {
		h.replaced("function", t.GetFunctionName())
	}
	if h.dataset.Name == t.GetDatasetName() && h.dataset.Digest != t.GetDatasetDigest() {
		h.replaced("data set", t.GetDatasetName())
	}
	return h.warnings
}

func (h *here) replaced(what, name string) {
	h.warn("%s %q: the folder here is used, and takes the place of what the store had under that name; ./%s says so without this warning", what, name, name)
}

func (h *here) warn(format string, args ...any) {
	h.warnings = append(h.warnings, fmt.Sprintf(format, args...))
}

// hasMain reports whether a folder has a program in it.
func hasMain(folder string) bool {
	info, err := os.Stat(filepath.Join(folder, "main.py"))
	return err == nil && info.Mode().IsRegular()
}
