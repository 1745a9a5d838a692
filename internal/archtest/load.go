package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Module is the path that all of our packages begin with.
const Module = "github.com/troupe-ml/troupe"

// Package is one of our packages, with the files of every platform and build tag.
type Package struct {
	Path  string // below the module, "" for its root
	Files []File
}

// File is what the rules look at in a Go file.
type File struct {
	Name      string // below the module, slash-separated
	Test      bool   // its name ends in _test.go
	Generated bool
	Doc       bool // it has a comment on its package clause
	Lines     int
	Inits     int      // functions named init
	Imports   []string // full paths
	Calls     []string // functions of imported packages that it names, as in "time.Sleep"
}

// Load reads the packages of the module that dir lies in.
func Load(ctx context.Context, dir string) ([]Package, error) {
	list := exec.CommandContext(ctx, "go", "list", "-e",
		"-json=Dir,ImportPath,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", Module+"/...")
	list.Dir = dir
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	var packages []Package
	for values := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			Dir, ImportPath                                              string
			GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := values.Decode(&listed); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		p := Package{Path: below(listed.ImportPath)}
		for _, names := range [][]string{listed.GoFiles, listed.CgoFiles, listed.IgnoredGoFiles, listed.TestGoFiles, listed.XTestGoFiles} {
			for _, name := range names {
				source, err := os.ReadFile(filepath.Join(listed.Dir, name))
				if err != nil {
					return nil, err
				}
				file, err := ParseFile(path.Join(p.Path, name), source)
				if err != nil {
					return nil, err
				}
				p.Files = append(p.Files, file)
			}
		}
		packages = append(packages, p)
	}
}

// below returns a package's path below the module.
func below(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, Module), "/")
}

// ParseFile looks at one Go file, whose name is below the module.
func ParseFile(name string, source []byte) (File, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
	if err != nil {
		return File{}, err
	}
	file := File{
		Name:      name,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(tree),
		Doc:       tree.Doc != nil,
		Lines:     bytes.Count(source, []byte("\n")),
	}
	locals := make(map[string]string) // the name in this file of each import
	for _, spec := range tree.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, err
		}
		file.Imports = append(file.Imports, full)
		locals[path.Base(full)] = full
		if spec.Name != nil {
			locals[spec.Name.Name] = full
		}
	}
	ast.Inspect(tree, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				file.Inits++
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && locals[x.Name] != "" {
				file.Calls = append(file.Calls, locals[x.Name]+"."+n.Sel.Name)
			}
		}
		return true
	})
	return file, nil
}
