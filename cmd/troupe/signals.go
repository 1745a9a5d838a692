package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// untilSignal returns a context that ends with the first signal, whose name is
// then its cause. A second signal ends the process at once. The caller calls
// release, which waits until nothing listens any more.
func (s *session) untilSignal() (ctx context.Context, release func()) {
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
				fmt.Fprintf(s.screen, "troupe: stopping after %s; once more ends at once\n", name(sig))
				cancel(fmt.Errorf("stopped by %s", name(sig)))
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
