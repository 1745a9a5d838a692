package function_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/function"
)

// drivers runs a test on a store of each kind.
func drivers(t *testing.T, test func(t *testing.T, s store.Store, c *function.Catalog)) {
	t.Run("file", func(t *testing.T) {
		s, err := store.NewFile(filepath.Join(t.TempDir(), "store"))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		test(t, s, function.New(s, "mlp"))
	})
	t.Run("mem", func(t *testing.T) {
		s := store.NewMem()
		test(t, s, function.New(s, "mlp"))
	})
}

func keys(t *testing.T, s store.Store) []string {
	t.Helper()
	var keys []string
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// folder makes a folder of files, by name.
func folder(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

func file(t *testing.T, name, content string) string {
	return filepath.Join(folder(t, "f", map[string]string{name: content}), name)
}

// tree reads a folder back.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(b)
		return err
	}))
	return files
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestAFileIsAProgram(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *function.Catalog) {
		info, err := c.Import(t.Context(), file(t, "My Net.py", "import torch\n"))
		require.NoError(t, err)
		require.False(t, info.Imported.IsZero())
		require.Equal(t, function.Info{
			Name: "my-net", Version: "43dad2834fbb4ebff4ae73c346c93f6b4eafba46818e70e6d77e733ebc51407b", Runtime: "python", Entry: "My Net.py",
			Single: true, Bytes: 13, Imported: info.Imported,
			Files: []function.File{{Name: "My Net.py", Bytes: 13, SHA256: "b91a3bc5e2064d025a8ae122555c96948ec5b4895d53d809c4b66b71a4915133"}},
		}, info)
		prefix := "functions/my-net/" + info.Version
		require.Equal(t, []string{prefix + "/code/My Net.py", prefix + "/manifest.json"}, keys(t, s))

		dir := filepath.Join(t.TempDir(), "a", "b")
		path, err := c.Materialise(t.Context(), info.Name, info.Version, dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, info.Version, "My Net.py"), path)
		require.Equal(t, map[string]string{"My Net.py": "import torch\n"}, tree(t, filepath.Dir(path)))
	})
}

// Code and what it reads is taken; what the machine made is not.
func TestAFolderIsAProgram(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *function.Catalog) {
		want := map[string]string{
			"main.py": "import nets.lenet", "nets/__init__.py": "", "nets/lenet.py": "x = 1", "manifest.json": "mine", "config.yaml": "lr: 1",
			"linked.py": "x = 1", "env/settings.py": "no environment",
		}
		files := map[string]string{
			".git/config": "x", ".env": "secret", "__pycache__/main.cpython-311.pyc": "x", "nets/__pycache__/l.pyc": "x", "stray.pyc": "x",
			"venv/pyvenv.cfg": "x", "venv/lib/torch.py": "x", "nets/conda/conda-meta/history": "x", "nets/conda/a.py": "x",
		}
		for name, content := range want {
			files[name] = content
		}
		delete(files, "linked.py")
		dir := folder(t, "Classifier_2", files)
		require.NoError(t, os.Symlink("nets/lenet.py", filepath.Join(dir, "linked.py")))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, ".hidden")))

		info, err := c.Import(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, "classifier_2", info.Name)
		require.Equal(t, "main.py", info.Entry)
		require.False(t, info.Single)
		require.Len(t, info.Files, len(want))
		path, err := c.Materialise(t.Context(), info.Name, info.Version, t.TempDir())
		require.NoError(t, err)
		require.Equal(t, info.Version, filepath.Base(path))
		require.Equal(t, want, tree(t, path))

		// The version is that of names and contents alone.
		copied := folder(t, "copy", want)
		again, err := c.Import(t.Context(), copied)
		require.NoError(t, err)
		require.Equal(t, info.Version, again.Version)
		require.NoError(t, os.Rename(filepath.Join(copied, "config.yaml"), filepath.Join(copied, "config.yml")))
		renamed, err := c.Import(t.Context(), copied)
		require.NoError(t, err)
		require.NotEqual(t, info.Version, renamed.Version)
	})
}

func TestWhatIsNoProgramIsRefusedWithTheReason(t *testing.T) {
	many, large := map[string]string{"main.py": "x"}, strings.Repeat("x", function.MaxBytes/2)
	for i := range function.MaxFiles {
		many[fmt.Sprintf("d/%d.txt", i)] = ""
	}
	link := func(to string) func(*testing.T) string {
		return func(t *testing.T) string {
			dir := folder(t, "p", map[string]string{"main.py": "x", "sub/a.py": "x"})
			require.NoError(t, os.Symlink(to, filepath.Join(dir, "link.py")))
			return dir
		}
	}
	pipe := func(name string) func(*testing.T) string {
		return func(t *testing.T) string {
			dir := folder(t, "p", map[string]string{"main.py": "x"})
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
			if name == "p.py" {
				return filepath.Join(dir, name)
			}
			return dir
		}
	}
	is := func(name string, files map[string]string) func(*testing.T) string {
		return func(t *testing.T) string { return folder(t, name, files) }
	}
	for name, tt := range map[string]struct {
		source func(t *testing.T) string
		kind   fault.Kind
		want   string
	}{
		"nothing there":       {func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.py") }, fault.NotFound, "no such file or folder"},
		"behind a file":       {func(t *testing.T) string { return filepath.Join(file(t, "a.py", "x"), "b.py") }, fault.Invalid, "not a directory"},
		"another language":    {func(t *testing.T) string { return file(t, "a.go", "x") }, fault.Invalid, "not a Python file: give a file that ends in .py"},
		"an empty file":       {func(t *testing.T) string { return file(t, "a.py", " \n") }, fault.Invalid, "a.py is empty"},
		"a device":            {func(*testing.T) string { return "/dev/null" }, fault.Invalid, "neither a file nor a folder"},
		"a pipe":              {pipe("p.py"), fault.Invalid, "neither a file nor a folder"},
		"a pipe in a folder":  {pipe("q.py"), fault.Invalid, "q.py: neither a file nor a folder"},
		"an empty folder":     {is("p", nil), fault.Invalid, "no main.py in the folder, which has: nothing"},
		"no main.py":          {is("p", map[string]string{"b.py": "x", "a/main.py": "x"}), fault.Invalid, "no main.py in the folder, which has: a/main.py, b.py"},
		"an empty main.py":    {is("p", map[string]string{"main.py": ""}), fault.Invalid, "main.py is empty"},
		"too many files":      {is("p", many), fault.Invalid, "more than 2000 files"},
		"too many bytes":      {is("p", map[string]string{"main.py": "x", "a.bin": large, "b.bin": large}), fault.Invalid, "more than 64 MiB up to"},
		"a link out":          {link("../other.py"), fault.Invalid, "link.py: a link to ../other.py, out of the folder"},
		"an absolute link":    {link("/etc/passwd"), fault.Invalid, "link.py: a link to /etc/passwd, out of the folder"},
		"a link to a folder":  {link("sub"), fault.Invalid, "link.py: a link to a folder"},
		"a link to nothing":   {link("gone.py"), fault.Invalid, "link.py: a link to gone.py, which does not exist"},
		"a link in a circle":  {link("link.py"), fault.Invalid, "link.py: "},
		"a name of no object": {is("p", map[string]string{"main.py": "x", "a\xff.py": "x"}), fault.Invalid, "cannot be stored"},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := store.NewMem(), tt.source(t)
			_, err := function.New(s).Import(t.Context(), source)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, fmt.Sprintf("program %q", source))
			require.Equal(t, tt.kind, fault.KindOf(err), "%v", err)
			require.Empty(t, keys(t, s))
		})
	}
}

func TestNames(t *testing.T) {
	s := store.NewMem()
	c := function.New(s, "mlp")
	path := file(t, "mlp.py", "x")
	info, err := c.Import(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, "mlp-program", info.Name, "a built-in function is not hidden")
	for source, want := range map[string]string{"Ünï.py": "n", "_.py": "program", "..a.py": "a", "a b.PY.py": "a-b", strings.Repeat("x", 90) + ".py": strings.Repeat("x", 50)} {
		info, err := c.Import(t.Context(), file(t, source, "x"))
		require.NoError(t, err)
		require.NoError(t, function.CheckName(info.Name))
		require.Contains(t, info.Name, want)
	}
	t.Chdir(folder(t, "here", map[string]string{"main.py": "x"}))
	info, err = c.Import(t.Context(), ".")
	require.NoError(t, err)
	require.Equal(t, "here", info.Name)

	info, err = c.ImportAs(t.Context(), "my.net-2_0", function.Source{Path: path})
	require.NoError(t, err)
	require.Equal(t, "my.net-2_0", info.Name)
	for _, name := range []string{"", "mlp", "A", "-a", ".a", "a/b", "..", "a b", "ü", strings.Repeat("x", 65)} {
		_, err := c.ImportAs(t.Context(), name, function.Source{Path: path})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", name)
		if name == "mlp" {
			continue
		}
		_, err = c.Show(t.Context(), name)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", name)
		_, err = c.Get(t.Context(), name, "x")
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", name)
		require.Equal(t, fault.Invalid, fault.KindOf(c.Delete(t.Context(), name)), "%q", name)
	}
}

func TestTheLastImportIsCurrent(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *function.Catalog) {
		one, two := file(t, "net.py", "1"), file(t, "net.py", "2")
		var versions []string
		for _, source := range []string{one, two, one, one, two} {
			info, err := c.Import(t.Context(), source)
			require.NoError(t, err)
			current, err := c.Show(t.Context(), "net")
			require.NoError(t, err)
			require.Equal(t, info, current)
			versions = append(versions, info.Version)
		}
		require.NotEqual(t, versions[0], versions[1])
		require.Equal(t, []string{versions[0], versions[1], versions[0], versions[0], versions[1]}, versions)
		old, err := c.Get(t.Context(), "net", versions[0])
		require.NoError(t, err)
		require.Equal(t, versions[0], old.Version)

		_, err = c.Import(t.Context(), file(t, "a.py", "3"))
		require.NoError(t, err)
		list, err := c.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, "a", list[0].Name)
		require.Equal(t, versions[1], list[1].Version)

		require.NoError(t, c.Delete(t.Context(), "net"))
		require.Len(t, keys(t, s), 2)
		for _, err := range []error{c.Delete(t.Context(), "net"), second(c.Show(t.Context(), "net")), second(c.Get(t.Context(), "net", versions[0]))} {
			require.Equal(t, fault.NotFound, fault.KindOf(err))
		}
		_, err = c.Materialise(t.Context(), "net", versions[0], t.TempDir())
		require.Equal(t, fault.NotFound, fault.KindOf(err))
		_, err = c.Get(t.Context(), "a", "../../x")
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	})
}

func second(_ function.Info, err error) error { return err }

func TestAnEmptyStoreHasNoFunctions(t *testing.T) {
	list, err := function.New(store.NewMem()).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []function.Info{}, list)
}

// failing is a store that cannot put one object.
type failing struct {
	store.Store
	suffix string
}

func (f failing) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	if strings.HasSuffix(key, f.suffix) {
		return fault.New("test", fault.Unavailable, "%s: no space left on device", key)
	}
	return f.Store.Put(ctx, key, write)
}

func TestAnImportThatTheStoreRefusesLeavesNothing(t *testing.T) {
	source := folder(t, "p", map[string]string{"main.py": "x", "a/b.py": "y"})
	for _, suffix := range []string{"main.py", "b.py", "manifest.json"} {
		s := store.NewMem()
		_, err := function.New(failing{s, suffix}).Import(t.Context(), source)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, suffix)
		require.Empty(t, keys(t, s), suffix)

		whole, err := function.New(s).Import(t.Context(), source)
		require.NoError(t, err, "later it works")
		_, err = function.New(failing{s, "manifest.json"}).Import(t.Context(), source)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		_, err = function.New(s).Materialise(t.Context(), whole.Name, whole.Version, t.TempDir())
		require.NoError(t, err, "and what was there stays")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := store.NewMem()
	_, err := function.New(s).Import(ctx, source)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Empty(t, keys(t, s))
}

// What an import that died left is no program, what is damaged is Corrupt, and
// the next import of the same repairs both.
func TestImportRepairsWhatIsIncomplete(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *function.Catalog) {
		source := folder(t, "p", map[string]string{"main.py": "abc", "a/b.py": "y"})
		info, err := c.Import(t.Context(), source)
		require.NoError(t, err)
		prefix := "functions/p/" + info.Version + "/"
		manifest := func(old, new string) func() error {
			return func() error {
				r, err := s.Get(t.Context(), prefix+"manifest.json", 0, -1)
				require.NoError(t, err)
				b, err := io.ReadAll(r)
				require.NoError(t, err)
				require.NoError(t, r.Close())
				require.Contains(t, string(b), old)
				return s.Put(t.Context(), prefix+"manifest.json", text(strings.ReplaceAll(string(b), old, new)))
			}
		}
		for name, damage := range map[string]func() error{
			"no manifest":    func() error { return s.Delete(t.Context(), prefix+"manifest.json") },
			"no JSON":        func() error { return s.Put(t.Context(), prefix+"manifest.json", text("{")) },
			"an empty one":   func() error { return s.Put(t.Context(), prefix+"manifest.json", text("{}")) },
			"another name":   manifest(`"name": "p"`, `"name": "q"`),
			"a way out":      manifest(`"a/b.py"`, `"../b.py"`),
			"another entry":  manifest(`"entry": "main.py"`, `"entry": "a/b.py"`),
			"no digest":      manifest(`"sha256": "`, `"sha256": "x`),
			"a single file":  manifest(`"single": false`, `"single": true`),
			"a runtime":      manifest(`"runtime": "python"`, `"runtime": "perl"`),
			"a file gone":    func() error { return s.Delete(t.Context(), prefix+"code/main.py") },
			"another length": func() error { return s.Put(t.Context(), prefix+"code/main.py", text("")) },
			"other bytes":    func() error { return s.Put(t.Context(), prefix+"code/main.py", text("abd")) },
		} {
			require.NoError(t, damage())
			_, err := c.Materialise(t.Context(), "p", info.Version, t.TempDir())
			require.Contains(t, []fault.Kind{fault.NotFound, fault.Corrupt}, fault.KindOf(err), "%s: %v", name, err)
			again, err := c.Import(t.Context(), source)
			require.NoError(t, err, name)
			require.Equal(t, info.Version, again.Version)
			_, err = c.Materialise(t.Context(), "p", info.Version, t.TempDir())
			require.NoError(t, err, name)
		}
	})
}

func TestMaterialiseMakesADamagedCopyAnew(t *testing.T) {
	c := function.New(store.NewMem())
	want := map[string]string{"main.py": "abc", "a/b.py": "y"}
	info, err := c.Import(t.Context(), folder(t, "p", want))
	require.NoError(t, err)
	dir := t.TempDir()
	path, err := c.Materialise(t.Context(), "p", info.Version, dir)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(path, "__pycache__"), 0o700))
	again, err := c.Materialise(t.Context(), "p", info.Version, dir)
	require.NoError(t, err)
	require.Equal(t, path, again)
	require.DirExists(t, filepath.Join(path, "__pycache__"), "what is whole is taken as it is")
	for _, damage := range []func() error{
		func() error { return os.WriteFile(filepath.Join(path, "main.py"), []byte("abd"), 0o600) },
		func() error { return os.Remove(filepath.Join(path, "a/b.py")) },
		func() error { return os.RemoveAll(path) },
	} {
		require.NoError(t, damage())
		_, err := c.Materialise(t.Context(), "p", info.Version, dir)
		require.NoError(t, err)
		require.Equal(t, want, tree(t, path))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary folder is left")

	blocked := file(t, "file", "x")
	_, err = c.Materialise(t.Context(), "p", info.Version, blocked)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, blocked)
}

func TestConcurrentCallers(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, _ *function.Catalog) {
		source, dir := folder(t, "p", map[string]string{"main.py": "abc", "a/b.py": "y"}), t.TempDir()
		var wg sync.WaitGroup
		errs, paths := make([]error, 8), make([]string, 8)
		for i := range errs {
			wg.Go(func() {
				c := function.New(s)
				info, err := c.Import(t.Context(), source)
				if err == nil {
					paths[i], err = c.Materialise(t.Context(), info.Name, info.Version, dir)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		for i, err := range errs {
			require.NoError(t, err)
			require.Equal(t, paths[0], paths[i])
		}
		require.Len(t, keys(t, s), 3)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}
