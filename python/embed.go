// Package python holds the Python SDK, packages troupe and kubeml, as files of
// the binary: all that a user needs beside it is Python with torch and numpy.
package python

import "embed"

// SDK holds troupe/*.py and kubeml/*.py, as they belong on PYTHONPATH.
//
//go:embed troupe/*.py kubeml/*.py
var SDK embed.FS
