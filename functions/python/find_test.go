package python_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
)

// interpreter writes one that is a shell script.
func interpreter(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// These tests need the Python of the system to have torch: apt-get install
// python3-torch, which make test does.
func TestFind(t *testing.T) {
	good := interpreter(t, "exit 0")
	bare := interpreter(t, "echo it has no torch >&2; exit 1")
	broken := interpreter(t, `case "$2" in *"import torch"*) exit 1;; esac`) // has torch, and cannot import it
	for name, c := range map[string]struct {
		explicit, variable, path string
		want                     string
		says                     []string
	}{
		"what is named is taken":             {good, bare, bare, good, nil},
		"then what TROUPE_PYTHON names":      {"", good, bare, good, nil},
		"a name is looked for on PATH":       {"python3", "", good, good, nil},
		"then the one on PATH":               {"", "", good, good, nil},
		"unless it has no torch":             {"", "", bare, "/usr/bin/python3", nil},
		"or cannot import it":                {"", "", broken, "/usr/bin/python3", nil},
		"then that of the system":            {"", "", "/nowhere/python3", "/usr/bin/python3", nil},
		"named and without torch is refused": {bare, good, good, "", []string{"--python", bare, "it has no torch", "apt-get install python3-torch", "pip install", "conda install"}},
		"a variable alike":                   {"", bare, good, "", []string{"TROUPE_PYTHON", bare}},
		"named and not there":                {"/nowhere/python", "", good, "", []string{"no such file"}},
		"named and no program":               {t.TempDir(), "", good, "", []string{"not a program"}},
		"named and not on PATH":              {"python9", "", good, "", []string{"not on PATH"}},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := python.Find(c.explicit, func(k string) string {
				return map[string]string{"TROUPE_PYTHON": c.variable, "PATH": filepath.Dir(c.path)}[k]
			})
			require.Equal(t, c.want, path)
			if c.says == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestWithoutPythonRunsAreUnavailable(t *testing.T) {
	r := fake(t, python.Config{Python: "/nowhere"}, "any")
	_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "any"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "apt-get install python3-torch")
}

func TestConfigIsChecked(t *testing.T) {
	for says, c := range map[string]python.Config{
		"slots -1":               {Slots: -1},
		"threads 1025":           {Threads: 1025},
		"memory limit of -1":     {MemoryLimit: -1},
		`gpus "many": give auto`: {GPUs: "many"},
	} {
		_, err := python.New(c)
		require.Equal(t, fault.Invalid, fault.KindOf(err), says)
		require.ErrorContains(t, err, says)
	}
}

func TestFoldersOfOthersAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	r, err := python.New(python.Config{UserDir: dir})
	require.NoError(t, err)
	err = r.Register(python.Program{Name: "any", Path: "testdata/network.py"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "not a folder of yours alone")
	require.NoError(t, r.Close())
}

func TestGPUsThatCUDASees(t *testing.T) {
	for list, want := range map[string]int{"": 4, "0,1": 2, "-1": 0, "3,9,1": 1, "GPU-8f2a": 1, "0,1,2,3,0": 4} {
		require.Equal(t, want, python.CountGPUs(4, list), list)
	}
	require.Zero(t, python.CountGPUs(0, "0"))
}
