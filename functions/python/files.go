package python

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/python"
)

// maxSocket is how long the path of a socket may be on Linux, its end included.
const maxSocket = 108

// open makes the files of this runtime, and starts what needs no Python.
func (r *Runtime) open() (err error) {
	parent := r.config.Dir
	if parent == "" || len(parent)+len("/python-1234567890/socket") >= maxSocket {
		if parent, err = userDir(r.config.UserDir); err != nil {
			return err
		}
	}
	sweep(parent)
	if r.dir, err = os.MkdirTemp(parent, runFolder); err != nil {
		return fault.New("python.open", fault.Unavailable, "make a folder for Python functions: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(r.dir)
		}
	}()
	lock, ok := claim(filepath.Join(r.dir, "lock"))
	if !ok {
		return fault.New("python.open", fault.Unavailable, "lock the folder %s: it is taken", r.dir)
	}
	r.unlock = func() { _ = lock.Close() }
	defer func() {
		if err != nil {
			r.unlock()
		}
	}()
	r.sdk = filepath.Join(r.dir, "sdk")
	var sdk fs.FS = python.SDK
	if r.config.SDK != nil {
		sdk = r.config.SDK
	}
	if err := os.CopyFS(r.sdk, sdk); err != nil {
		return fault.New("python.open", fault.Unavailable, "unpack the Python packages: %w", err)
	}
	if r.hub, err = listen(socketIn(r.dir)); err != nil {
		return err
	}
	r.spawner = child.NewSpawner()
	return nil
}

func socketIn(dir string) string { return filepath.Join(dir, "socket") }

// runFolder is what the folder of a runtime is called, before a random part.
const runFolder = "python-"

// sweep removes what is left of runtimes whose process is gone.
func sweep(parent string) {
	folders, _ := filepath.Glob(filepath.Join(parent, runFolder+"*"))
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "lock")); err != nil {
			continue // of somebody who is just making it
		}
		if lock, ok := claim(filepath.Join(folder, "lock")); ok {
			killStragglers(folder)
			_ = os.RemoveAll(folder)
			_ = lock.Close()
		}
	}
}

// userDir returns a folder that all processes of this user share and nobody
// else may enter; "" stands for the usual one.
func userDir(path string) (string, error) {
	if path == "" {
		path = filepath.Join(os.TempDir(), "troupe-"+strconv.Itoa(os.Getuid()))
	}
	err := os.MkdirAll(path, 0o700)
	var stat unix.Stat_t
	if err == nil {
		err = unix.Lstat(path, &stat)
	}
	if err != nil {
		return "", fault.New("python.open", fault.Unavailable, "make the folder %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Getuid() || stat.Mode&0o077 != 0 {
		return "", fault.New("python.open", fault.Unavailable, "%s is not a folder of yours alone (mode 0700): remove it, or set TMPDIR", path)
	}
	return path, nil
}

// claim locks the file at path until release, or as long as this process lives.
// It reports false when somebody else has it, or it cannot be made.
func claim(path string) (*os.File, bool) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, false
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			return nil, false
		}
		mine, err := f.Stat()
		if now, gone := os.Stat(path); err == nil && gone == nil && os.SameFile(mine, now) {
			return f, true
		}
		_ = f.Close() // released, and so removed, between opening and locking
		if err != nil {
			return nil, false
		}
	}
}

// release gives up what claim returned. The file goes first: who has opened it
// by then sees that.
func release(f *os.File) {
	_ = os.Remove(f.Name())
	_ = f.Close()
}
