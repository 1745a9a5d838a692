package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// untilSignal returns a context that ends with the first signal, whose name is
// then its cause. A second signal ends the process at once. The caller calls
// release, which waits until nothing listens any more.
func (s *session) untilSignal() (ctx context.Context, release func()) {
	return s.onSignal(func(sig os.Signal) {
		fmt.Fprintf(s.screen, "troupe: stopping after %s; once more ends at once\n", name(sig))
	})
}

// whileLooking is untilSignal for what a signal ends without harm: whoever looks
// on goes.
func (s *session) whileLooking() (ctx context.Context, release func()) {
	return s.onSignal(func(os.Signal) {})
}

func (s *session) onSignal(say func(os.Signal)) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case sig := <-s.Signals:
				if !first {
					s.Exit(exitKilled + number(sig))
				}
				s.screen.home()
				say(sig)
				cancel(signalError{sig})
			case <-over:
				cancel(nil)
				return
			}
		}
	}()
	return ctx, func() {
		close(over)
		<-done
	}
}

// signalError says which signal came.
type signalError struct{ sig os.Signal }

func (e signalError) Error() string { return "stopped by " + name(e.sig) }

// leftError ends a verb that only looked on, by a signal: nothing else ends by
// that.
type leftError struct {
	sig  os.Signal
	text string
}

func (e *leftError) Error() string { return e.text }

// left returns err, or where a signal ended ctx a leftError with that text, or
// else that of the signal.
func left(ctx context.Context, err error, text string) error {
	by, ok := errors.AsType[signalError](context.Cause(ctx))
	if !ok {
		return err
	}
	if text == "" {
		text = by.Error()
	}
	return &leftError{by.sig, text}
}

func name(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "Ctrl-C"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return s.String()
}

func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
