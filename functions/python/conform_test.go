package python_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/python"
)

// record keeps what a runtime says.
type record struct {
	mu       sync.Mutex // guards what follows
	lines    []python.Line
	warnings []string
}

func (r *record) log(l python.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
}

func (r *record) warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

func (r *record) warned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
}

func (r *record) text() (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		text += l.Text + "\n"
	}
	return text
}

// open returns a runtime of programs in testdata, by name.
func open(t *testing.T, config python.Config, programs ...string) (*python.Runtime, *record) {
	t.Helper()
	said := &record{}
	config.Log, config.Warn = said.log, said.warn
	config.Dir = t.TempDir()
	config.UserDir = private(t)
	r, err := python.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for _, name := range programs {
		path, err := filepath.Abs(filepath.Join("testdata", name+".py"))
		require.NoError(t, err)
		require.NoError(t, r.Register(python.Program{Name: name, Path: path}))
	}
	return r, said
}

func TestPythonConforms(t *testing.T) {
	for mode, c := range map[string]struct{ function, warning string }{
		"workers forked from a zygote":     {"network", ""},
		"fresh workers: thread at import":  {"threads", "it starts threads when it is imported"},
		"fresh workers: threads set":       {"setthreads", "it calls torch.set_num_threads(4) when it is imported"},
		"fresh workers: compute at import": {"computes", "threads"},
	} {
		t.Run(mode, func(t *testing.T) {
			r, said := open(t, python.Config{Slots: 4}, c.function, "raises")
			functionstest.Run(t, func(*testing.T) functionstest.Subject {
				return functionstest.Subject{Runtime: r, Function: c.function, Raises: "raises", Tolerance: 1e-6}
			})
			if c.warning == "" {
				require.Empty(t, said.warned())
			} else {
				require.Len(t, said.warned(), 1)
				require.Contains(t, said.warned()[0], c.warning)
			}
		})
	}
}
