package function

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const importOp = "function.import"

// What a program may be at most. Data belongs in a data set.
const (
	MaxBytes = 64 << 20 // of all files
	MaxFiles = 2000
)

// mainFile is the entry of a program that is a folder.
const mainFile = "main.py"

// program is a program that has been read.
type program struct {
	info     Info // without Name and Imported
	contents [][]byte
}

// read reads a program from a file that ends in .py, or from a folder with
// main.py.
func read(ctx context.Context, source string) (*program, error) {
	stat, err := os.Stat(source) // before it is opened: that may block on what is no file
	if err != nil {
		return nil, openFault(err)
	}
	p := &program{info: Info{Runtime: Python, Entry: mainFile}}
	switch {
	case stat.IsDir():
		err = p.readFolder(ctx, source)
	case !stat.Mode().IsRegular():
		return nil, fault.New(importOp, fault.Invalid, "neither a file nor a folder")
	case !strings.HasSuffix(source, ".py"):
		return nil, fault.New(importOp, fault.Invalid, "not a Python file: give a file that ends in .py, or a folder with %s", mainFile)
	default:
		p.info.Single, p.info.Entry = true, filepath.Base(source)
		err = p.readSingle(source)
	}
	if err != nil {
		return nil, err
	}
	p.info.Version = versionOf(p.info.Entry, p.info.Files)
	return p, nil
}

func (p *program) readSingle(source string) error {
	f, err := os.Open(source)
	if err != nil {
		return openFault(err)
	}
	defer func() { _ = f.Close() }()
	if err := p.add(p.info.Entry, f); err != nil {
		return err
	}
	return p.checkEntry()
}

// readFolder reads all files in a folder but those that the machine made.
func (p *program) readFolder(ctx context.Context, source string) error {
	root, err := os.OpenRoot(source) // it opens nothing outside
	if err != nil {
		return openFault(err)
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fault.New(importOp, fault.Unavailable, "stopped: %w", ctx.Err())
		case err != nil:
			return fault.New(importOp, fault.KindOf(openFault(err)), "%s: %w", name, openFault(err))
		case name == ".":
			return nil
		case entry.IsDir() && isGenerated(root, name):
			return fs.SkipDir
		case entry.IsDir() || isHidden(name) || strings.HasSuffix(name, ".pyc"):
			return nil
		}
		return p.addFrom(root, name)
	})
	if err != nil {
		return err
	}
	// The walk is by folder; the version wants the order of the whole names.
	order := make([]int, len(p.info.Files))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(p.info.Files[a].Name, p.info.Files[b].Name) })
	files, contents := make([]File, len(order)), make([][]byte, len(order))
	for to, from := range order {
		files[to], contents[to] = p.info.Files[from], p.contents[from]
	}
	p.info.Files, p.contents = files, contents
	return p.checkEntry()
}

// addFrom adds a file of a folder. A link counts as what it leads to, a file
// within the folder.
func (p *program) addFrom(root *os.Root, name string) error {
	stat, err := root.Stat(name)
	if err != nil {
		if link, e := root.Readlink(name); e == nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fault.New(importOp, fault.Invalid, "%s: a link to %s, which does not exist", name, link)
			}
			return fault.New(importOp, fault.Invalid, "%s: a link to %s, out of the folder: only what is in it is imported, and absolute links are not followed", name, link)
		}
		return fault.New(importOp, fault.KindOf(openFault(err)), "%s: %w", name, openFault(err))
	}
	switch {
	case stat.IsDir():
		return fault.New(importOp, fault.Invalid, "%s: a link to a folder: only links to files are followed", name)
	case !stat.Mode().IsRegular():
		return fault.New(importOp, fault.Invalid, "%s: neither a file nor a folder", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return fault.New(importOp, fault.KindOf(openFault(err)), "%s: %w", name, openFault(err))
	}
	defer func() { _ = f.Close() }()
	return p.add(filepath.ToSlash(name), f)
}

// add adds a file. The bounds keep it in memory.
func (p *program) add(name string, r io.Reader) error {
	if err := store.CheckKey(fileKey("n", strings.Repeat("0", 64), name)); err != nil {
		return fault.New(importOp, fault.Invalid, "%q cannot be stored: %w", name, err)
	}
	if len(p.info.Files) == MaxFiles {
		return fault.New(importOp, fault.Invalid, "more than %d files, the next is %s: data belongs in a data set", MaxFiles, name)
	}
	content, err := io.ReadAll(io.LimitReader(r, MaxBytes-p.info.Bytes+1))
	if err != nil {
		return fault.New(importOp, fault.Unavailable, "%s: %w", name, err)
	}
	if p.info.Bytes += int64(len(content)); p.info.Bytes > MaxBytes {
		return fault.New(importOp, fault.Invalid, "more than %d MiB up to %s: data belongs in a data set", MaxBytes>>20, name)
	}
	sum := sha256.Sum256(content)
	p.info.Files = append(p.info.Files, File{Name: name, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	p.contents = append(p.contents, content)
	return nil
}

// checkEntry refuses a program that cannot be started.
func (p *program) checkEntry() error {
	i := slices.IndexFunc(p.info.Files, func(f File) bool { return f.Name == p.info.Entry })
	if i < 0 {
		return fault.New(importOp, fault.Invalid, "no %s in the folder, which has: %s", mainFile, p.names())
	}
	if len(bytes.TrimSpace(p.contents[i])) == 0 {
		return fault.New(importOp, fault.Invalid, "%s is empty", p.info.Entry)
	}
	if !isText(p.contents[i]) {
		return fault.New(importOp, fault.Invalid, "%s is no program text: give Python code in UTF-8, or say its encoding in its first two lines", p.info.Entry)
	}
	return nil
}

// isText reports whether bytes can be a file of Python: UTF-8, or what its first
// lines say, and no NUL, which Python refuses anywhere.
func isText(b []byte) bool {
	if bytes.IndexByte(b, 0) >= 0 {
		return false
	}
	if utf8.Valid(b) {
		return true
	}
	for _, line := range bytes.SplitN(b, []byte("\n"), 3)[:min(2, bytes.Count(b, []byte("\n"))+1)] {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) && bytes.Contains(line, []byte("coding")) {
			return true
		}
	}
	return false
}

// names lists the files, the first ones if they are many.
func (p *program) names() string {
	var names []string
	for _, f := range p.info.Files[:min(len(p.info.Files), 8)] {
		names = append(names, f.Name)
	}
	if more := len(p.info.Files) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func isHidden(name string) bool { return strings.HasPrefix(path.Base(name), ".") }

// isGenerated reports whether a folder is hidden, a cache, or an environment
// with an interpreter of its own.
func isGenerated(root *os.Root, name string) bool {
	if isHidden(name) || path.Base(name) == "__pycache__" {
		return true
	}
	for _, mark := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := root.Lstat(path.Join(name, mark)); err == nil {
			return true
		}
	}
	return false
}

// openFault gives an error of the operating system its kind. The path is left
// out: the caller says it.
func openFault(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(importOp, fault.NotFound, "no such file or folder")
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fault.New(importOp, fault.Invalid, "%w", err)
}
