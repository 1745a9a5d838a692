package plane

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/config"
)

const (
	memoryDir = "/dev/shm"
	// enough is the room that memory must have to be chosen when no limit says
	// what is wanted. Containers often have but 64 MiB there.
	enough = 256 << 20
)

// chooseDir returns the folder in which to make ours, and sweeps what killed
// processes left in it. Where cfg leaves the choice both candidates are swept
// first: what a killed process held in memory is room again.
func chooseDir(cfg config.Scratch, warn func(string)) string {
	Sweep(cfg, warn)
	if cfg.Dir != "" {
		return cfg.Dir
	}
	wanted := int64(enough)
	if cfg.Limit > 0 {
		wanted = cfg.Limit
	}
	free, err := room(memoryDir)
	if err == nil {
		err = unix.Access(memoryDir, unix.W_OK)
	}
	if err == nil && free >= wanted {
		return memoryDir
	}
	why := fmt.Sprintf("it has %d MiB free, %d are wanted", free>>20, wanted>>20)
	if err != nil {
		why = err.Error()
	}
	warn(fmt.Sprintf("scratch is on disk, in %s, not in %s: %s", os.TempDir(), memoryDir, why))
	return os.TempDir()
}

// baseOf is the folder in dir that all processes of this user share.
func baseOf(dir string) string { return filepath.Join(dir, "troupe-"+strconv.Itoa(os.Getuid())) }

// checkBase refuses a base that is not a folder of this user alone: dir is
// often one that everybody may write to. fs.ErrNotExist when there is none.
func checkBase(base string) error {
	info, err := os.Lstat(base)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s (%v) is not a folder of user %d alone", base, info.Mode(), os.Getuid())
	}
	return nil
}

// makeFolder makes a folder of this process in dir and locks it. Between
// making and locking, a process that sweeps may take it for a leftover, or one
// that closes may remove the empty base; then it is tried again. Once locked
// and still there, it is safe: whoever sweeps needs the lock, and keeps it
// until the folder is gone.
func makeFolder(dir string) (string, *os.File, error) {
	base := baseOf(dir)
	for {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return "", nil, err
		}
		if err := checkBase(base); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", nil, err
		}
		folder := filepath.Join(base, strings.ToLower(rand.Text()))
		if err := os.Mkdir(folder, 0o700); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", nil, err
		}
		lock, err := lockFolder(folder)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			_ = os.Remove(folder)
			return "", nil, err
		}
		if _, err := os.Lstat(folder); err == nil {
			return folder, lock, nil
		}
		_ = lock.Close()
	}
}

// lockFolder opens folder and takes its lock without waiting. The lock goes
// with the file, at the latest when the process ends; os opens files such that
// programs we start do not inherit them.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = ignoreEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Sweep removes what killed processes of this user have left where cfg has them
// keep their scratch. OpenScratch does the same first.
func Sweep(cfg config.Scratch, warn func(string)) {
	if cfg.Dir != "" {
		sweep(cfg.Dir, warn)
		return
	}
	sweep(memoryDir, warn)
	sweep(os.TempDir(), warn)
}

// sweep removes the folders in dir's base that no living process holds.
func sweep(dir string, warn func(string)) {
	base := baseOf(dir)
	if checkBase(base) != nil {
		return // none, or not ours to touch
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		warn(fmt.Sprintf("scratch of killed processes in %s is not swept: %v", base, err))
		return
	}
	for _, e := range entries {
		folder := filepath.Join(base, e.Name())
		lock, err := lockFolder(folder)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // held by the living, or gone meanwhile, or no folder of ours
		}
		if err == nil {
			err = os.RemoveAll(folder)
			_ = lock.Close()
		}
		if err != nil {
			warn(fmt.Sprintf("scratch %s of a killed process is not swept: %v", folder, err))
		}
	}
}
