package actors

import (
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/isolate"
	"github.com/troupe-ml/troupe/functions/native"
)

// Isolated returns at once, but in the processes that a company with
// config.Node.Isolate starts for Go functions: there it runs functions, the
// built-in ones and those given, until the company ends, and never returns.
//
// Such a process is the program itself, started again with the same arguments.
// Start calls Isolated, so a program that does nothing of note before Start need
// not; any other calls it first thing in main, with what it hands to Start as
// Config.Functions.
func Isolated(own ...native.Function) {
	isolate.Serve(func() (functions.Runtime, error) {
		r, err := native.New(own...)
		if err != nil {
			return nil, err
		}
		r.Alone()
		return r, nil
	})
}
