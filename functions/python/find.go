package python

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// systemPython is where a system keeps its own interpreter, which others (of
// pyenv, conda, a virtual environment) may hide on PATH.
const systemPython = "/usr/bin/python3"

// probeTime is what an interpreter gets to say what it has: 0.1 s is usual,
// with a cold disk it takes some seconds.
const probeTime = 20 * time.Second

const howToInstall = `install PyTorch, then try again:
  Debian, Ubuntu: apt-get install python3-torch
  pip:            python3 -m pip install torch numpy
  conda:          conda install pytorch numpy
or name an interpreter that has it with --python PATH or TROUPE_PYTHON`

// Find returns the Python interpreter to use: explicit if it is not "", else
// what TROUPE_PYTHON says, else the first of python3 on PATH and
// /usr/bin/python3 that has torch and numpy. Whether two are equally good is
// found by having the first import them, which takes seconds; otherwise an
// interpreter is only asked what it has.
//
// It fails with Unavailable, and says how to install PyTorch: with what was
// named, when that will not do, whatever others there are.
func Find(explicit string, getenv func(string) string) (string, error) {
	for _, named := range []struct{ from, name string }{
		{"--python", explicit}, {"TROUPE_PYTHON", getenv("TROUPE_PYTHON")},
	} {
		if named.name == "" {
			continue
		}
		path, err := lookPath(named.name, getenv("PATH"))
		if err == nil {
			err = probe(path, false)
		}
		if err != nil {
			return "", fault.New("python.find", fault.Unavailable, "%s %s cannot run PyTorch programs: %w\n%s", named.from, named.name, err, howToInstall)
		}
		return path, nil
	}
	return search(getenv("PATH"))
}

func search(pathList string) (string, error) {
	var good, reasons []string
	for _, name := range []string{"python3", systemPython} {
		path, err := lookPath(name, pathList)
		if err == nil && len(good) == 1 && good[0] == path {
			continue
		}
		if err == nil {
			err = probe(path, false)
		}
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("  %s: %v", name, err))
			continue
		}
		good = append(good, path)
	}
	if len(good) > 1 && probe(good[0], true) != nil {
		good = good[1:]
	}
	if len(good) == 0 {
		return "", fault.New("python.find", fault.Unavailable, "there is no Python with torch and numpy here:\n%s\n%s", strings.Join(reasons, "\n"), howToInstall)
	}
	return good[0], nil
}

// lookPath is exec.LookPath with a PATH of the caller's. What it returns is
// absolute; links are kept, since that is how virtual environments work.
func lookPath(name, pathList string) (string, error) {
	if strings.Contains(name, "/") {
		abs, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return abs, executable(abs)
	}
	for _, dir := range filepath.SplitList(pathList) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) && executable(path) == nil {
			return path, nil
		}
	}
	return "", errors.New("not on PATH")
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return errors.New("not a program")
	}
	return nil
}

// The folder that Python would look into first is the current one, whose modules
// are not meant.
const (
	asks = `
import sys
sys.path[:] = [p for p in sys.path if p]
import importlib.util
if sys.version_info < (3, 8):
    sys.exit("it is Python %d.%d: 3.8 is the oldest that will do" % sys.version_info[:2])
def has(module):
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None
missing = [module for module in ("torch", "numpy") if not has(module)]
if missing:
    sys.exit("it has no " + " and no ".join(missing))
`
	imports = `
import sys
sys.path[:] = [p for p in sys.path if p]
import torch, numpy
`
)

// probe returns nil when the interpreter has torch and numpy; with imports,
// when it can import them too.
func probe(path string, importing bool) error {
	script := asks
	if importing {
		script = imports
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", script)
	cmd.WaitDelay = time.Second
	var says bytes.Buffer
	cmd.Stderr = &limited{&says, 4096}
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("no answer in %v", probeTime)
	case strings.TrimSpace(says.String()) != "":
		return errors.New(child.LastLine(says.String()))
	}
	return err
}
