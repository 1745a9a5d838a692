package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// CheckImports returns a line for each import that the table forbids, and for
// each package that it does not know.
func CheckImports(packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		r, ok := decide(importTable(), p.Path)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("package %q is not in the import table (internal/archtest/table.go)", p.Path))
			continue
		}
		for _, file := range p.Files {
			for _, imported := range file.Imports {
				if why := forbidden(r, p.Path, file, imported); why != "" {
					wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", file.Name, imported, why))
				}
			}
		}
	}
	return wrong
}

// forbidden says why a file may not import a package, or "".
func forbidden(r rule, from string, file File, imported string) string {
	if owner, ok := decide(owners(), imported); ok && !matchesAny(owner.may, from) {
		return fmt.Sprintf("only %q may", owner.may)
	}
	if imported != Module && !strings.HasPrefix(imported, Module+"/") {
		return ""
	}
	ours := below(imported)
	switch {
	case matches("cmd/...", ours) && !sameTree("cmd/*/...", from, ours):
		return "programs are not libraries"
	case file.Test, sameTree(r.packages, from, ours):
		return ""
	case matchesAny(testOnly(), ours) && !matchesAny(testOnlyUsers(), from):
		return "it is for tests"
	case !matchesAny(r.may, ours):
		return fmt.Sprintf("%s may import %q of ours", r.packages, r.may)
	}
	return ""
}

// CheckFiles returns a line for each file that is too long, has an init or a
// banned call, and for each package without a doc comment.
func CheckFiles(packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		var code, documented bool
		for _, file := range p.Files {
			code = code || !file.Test
			documented = documented || file.Doc && !file.Test
			if file.Generated {
				continue
			}
			if file.Lines > maxLines {
				wrong = append(wrong, fmt.Sprintf("%s has %d lines: split it, %d are enough", file.Name, file.Lines, maxLines))
			}
			if file.Inits > 0 {
				wrong = append(wrong, file.Name+" has an init: hand dependencies in instead")
			}
			wrong = append(wrong, banned(p.Path, file)...)
		}
		if code && !documented {
			wrong = append(wrong, fmt.Sprintf("package %q has no doc comment", p.Path))
		}
	}
	return wrong
}

// banned returns a line for each banned function that a file names.
func banned(pkg string, file File) []string {
	if slices.Contains(file.Imports, "testing/synctest") {
		return nil
	}
	var wrong []string
	for _, b := range bans() {
		if matches(b.in, pkg) && (file.Test || !b.tests) && file.Name != b.except && slices.Contains(file.Calls, b.call) {
			wrong = append(wrong, fmt.Sprintf("%s calls %s: %s", file.Name, b.call, b.instead))
		}
	}
	return wrong
}

// CheckFolders returns a line for each top-level folder that is not known.
func CheckFolders(names []string) []string {
	var wrong []string
	for _, name := range names {
		if !strings.HasPrefix(name, ".") && name != "bin" && !slices.Contains(folders(), name) {
			wrong = append(wrong, fmt.Sprintf("folder %s is new: write an ADR, then add it to internal/archtest/table.go", name))
		}
	}
	return wrong
}
