package mutants

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is one way to break the code, as its patch describes it.
type mutant struct {
	name    string // of the patch file, without .patch
	breaks  string // what is wrong with the patched code, for people
	pkg     string // of the test, as in "./tensor"
	test    string // regular expression over the whole name
	patch   []byte
	changes []string // files it changes, slash-separated, relative to the root
}

// load reads the patch at path, which must carry a header and change nothing
// but Go files that are not tests.
func load(path string) (mutant, error) {
	patch, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(path), ".patch"), patch: patch}
	for lines := bufio.NewScanner(bytes.NewReader(patch)); lines.Scan(); {
		line := lines.Text()
		if breaks, ok := strings.CutPrefix(line, "# breaks: "); ok {
			m.breaks = breaks
		} else if test, ok := strings.CutPrefix(line, "# test: "); ok {
			m.pkg, m.test, _ = strings.Cut(test, " ")
		} else if file, ok := strings.CutPrefix(line, "+++ b/"); ok {
			m.changes = append(m.changes, strings.TrimSpace(file))
		}
	}
	if m.breaks == "" || m.test == "" {
		return mutant{}, fmt.Errorf("%s: its header needs \"# breaks: WHAT\" and \"# test: ./PACKAGE TEST\"", path)
	}
	if len(m.changes) == 0 {
		return mutant{}, fmt.Errorf("%s: changes nothing", path)
	}
	for _, file := range m.changes {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return mutant{}, fmt.Errorf("%s: changes %s, which is not our code", path, file)
		}
	}
	return m, nil
}

// overlay writes the patched files into dir, which must be empty, and returns
// the path of a file for the flag -overlay of the go command.
func (m mutant) overlay(ctx context.Context, root, dir string) (string, error) {
	replace := make(map[string]string)
	for _, file := range m.changes {
		original, patched := filepath.Join(root, filepath.FromSlash(file)), filepath.Join(dir, filepath.FromSlash(file))
		source, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(patched), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(patched, source, 0o600); err != nil {
			return "", err
		}
		replace[original] = patched
	}
	git := exec.CommandContext(ctx, "git", "apply", "--recount", "--whitespace=nowarn", "-")
	git.Dir, git.Stdin = dir, bytes.NewReader(m.patch)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // dir is no repository
	if out, err := git.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patch no longer applies: %s", bytes.TrimSpace(out))
	}
	table, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, table, 0o600)
}
