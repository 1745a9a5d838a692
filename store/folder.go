package store

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is an open one that has a store, or is going to. It is not safe for
// concurrent use, but for its root.
type folder struct {
	root *os.Root
	seen sight
	name *os.File // its store.json, open: so that no file that takes its place has its number; nil: none yet
}

// sight is what is seen of a folder by two calls.
type sight struct {
	dir  fs.FileInfo
	name fs.FileInfo // of its store.json; nil: none that can be seen
}

func lookAt(dir string) (sight, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return sight{}, err
	}
	name, err := os.Stat(filepath.Join(dir, idKey))
	if err != nil {
		name = nil // whoever opens the folder is told why
	}
	return sight{info, name}, nil
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &folder{root: root, seen: sight{dir: info}}, nil
}

// is reports whether what is seen now is this folder, with the id that it had, ""
// for none: it may have been emptied where it is.
func (f *folder) is(now sight, id string) bool {
	if !os.SameFile(f.seen.dir, now.dir) {
		return false
	}
	had := f.seen.name
	return id == "" || now.name != nil && os.SameFile(had, now.name) && had.Size() == now.name.Size() && had.ModTime().Equal(now.name.ModTime())
}

// readID returns the id of the store in the folder, "" if that says none.
func (f *folder) readID() string {
	file, err := f.root.Open(idKey)
	if err != nil {
		return ""
	}
	info, err := file.Stat()
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, maxID))
	}
	id := parseID(text)
	if err != nil || id == "" {
		_ = file.Close()
		return ""
	}
	f.name, f.seen.name = file, info
	return id
}

// close ends the use of a folder; that of nil does nothing.
func (f *folder) close() {
	if f == nil {
		return
	}
	if f.name != nil {
		_ = f.name.Close()
	}
	_ = f.root.Close()
}
