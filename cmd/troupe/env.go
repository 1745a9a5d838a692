package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// env is what the program sees of the world around it. All fields are
// required.
type env struct {
	In         io.Reader
	Out        io.Writer // results, and nothing else
	Err        io.Writer // progress, warnings, logs, errors
	Getenv     func(string) string
	IsTerminal func(io.Writer) bool
	Columns    func(io.Writer) int // of the terminal that a writer is; 0: it is none
	Signals    <-chan os.Signal    // those that ask for an end
	Exit       func(code int)      // ends the process at once
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns returns how wide the terminal is that w is, 0 if it is none.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
