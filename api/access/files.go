package access

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// The files of a TLS folder.
const (
	caFile        = "ca.pem"
	caKeyFile     = "ca-key.pem"
	serverFile    = "server.pem"
	serverKeyFile = "server-key.pem"
	tokensFile    = "tokens.json"
	lockFile      = "lock"
)

// readSecret reads a file that must be its owner's alone. NotFound; Invalid:
// others may read it; Unavailable.
func readSecret(dir, name string) ([]byte, error) {
	const op = "access.read"
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(op, fault.NotFound, "there is no %s", path)
	}
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "%w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(op, fault.Invalid, "%s may be read or changed by others (%v): chmod 600 it, and think of it as known", path, info.Mode().Perm())
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "%w", err)
	}
	return body, nil
}

// writeFile replaces a file, for its owner alone, whole or not at all.
func writeFile(dir, name string, body []byte) (err error) {
	defer func() {
		if err != nil {
			err = fault.New("access.write", fault.Unavailable, "write %s: %w", filepath.Join(dir, name), err)
		}
	}()
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// locked calls f while no other process is in the folder, which it makes.
func locked(dir string, f func() error) error {
	const op = "access.lock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(op, fault.Unavailable, "make the folder for certificates: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.New(op, fault.Unavailable, "lock the folder for certificates: %w", err)
	}
	defer lock.Close() // which unlocks
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fault.New(op, fault.Unavailable, "lock %s: %w", lock.Name(), err)
	}
	return f()
}
