package cache

import (
	"errors"
	"os"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Usable makes a folder for copies, if need be, and writes to it, so that who names
// one that cannot be used hears so before anything depends on it. Unavailable: it
// cannot.
func Usable(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = probe(dir)
	}
	if err != nil {
		return fault.New(op, fault.Unavailable, "cache %q cannot be used: %w: name a folder that this user may write to", dir, err)
	}
	return nil
}

// probe writes to a folder, and removes what it wrote.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".usable-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("a byte")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
