// Command troupe trains neural networks with a company of actors.
//
// A file per verb or group of them (run.go, task.go, modelexport.go); the rest is what
// they share. This package wires and decides nothing: what a task may be is
// decided by internal/task, what happens to a job by the actors.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/troupe-ml/troupe/actors"
)

func main() {
	actors.Isolated() // in the processes of --isolate

	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(stop, syscall.SIGHUP)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writes fail instead: a job outlives its readers

	p := &program{
		env:   env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, IsTerminal: isTerminal, Columns: columns, Signals: stop, Exit: os.Exit},
		start: startCompany,
	}
	os.Exit(p.Run(os.Args[1:]))
}
