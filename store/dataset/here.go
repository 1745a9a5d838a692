package dataset

import (
	"os"
	"path/filepath"
)

// IsFolder reports whether a folder has a data set in it, which Open reads by
// its path.
func IsFolder(path string) bool {
	entries, err := os.ReadDir(filepath.Clean(path))
	if err != nil {
		return false
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	_, err = pick(names)
	return err == nil
}

// IsPath reports whether Open takes a name for a path, whatever there is.
func IsPath(name string) bool { return isPath(name) }
