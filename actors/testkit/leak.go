package testkit

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// grace is how long goroutines may take to end after a test.
const grace = 3 * time.Second

// labels numbers the checks of this process.
var labels atomic.Uint64

// LeakCheck fails a test that leaves a goroutine behind, three seconds after
// its last cleanup: call it first. In a test that is not parallel every new
// goroutine counts. In a parallel one, where others start theirs meanwhile,
// those count that the test's own goroutine started, directly or through
// others (but not through time.AfterFunc); a test calls t.Parallel before.
func LeakCheck(t testing.TB) {
	t.Helper()
	leaked := label(t)
	if !serial(t) {
		t.Cleanup(leaked)
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		leaked()
		if !t.Failed() {
			await(t, func() error { return goleak.Find(before) })
		}
	})
}

// label marks the calling goroutine, a mark that every goroutine started from
// here on inherits, and returns a function that waits until none is left with
// it but the caller's.
func label(t testing.TB) (leaked func()) {
	mark := fmt.Sprintf("%d", labels.Add(1))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("testkit", mark)))
	return func() {
		t.Helper()
		pprof.SetGoroutineLabels(context.Background())
		await(t, func() error { return marked(mark) })
	}
}

// marked returns an error that shows the goroutines with a mark.
func marked(mark string) error {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err
	}
	wanted := fmt.Sprintf("%q:%q", "testkit", mark)
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		for line := range strings.Lines(stack) {
			if strings.HasPrefix(line, "# labels:") && strings.Contains(line, wanted) {
				found = append(found, stack)
			}
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("goroutines left behind:\n%s", strings.Join(found, "\n\n"))
	}
	return nil
}

// await looks until there is no error, or fails the test once grace is over.
func await(t testing.TB, look func() error) {
	t.Helper()
	if look() == nil {
		return
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if look() == nil {
				return
			}
		case <-over.C:
			if err := look(); err != nil {
				t.Errorf("testkit: %v", err)
			}
			return
		}
	}
}

// serial reports whether no other test runs meanwhile: package testing refuses
// a test's own environment to parallel tests.
func serial(t testing.TB) (alone bool) {
	defer func() {
		if recover() != nil {
			alone = false
		}
	}()
	t.Setenv("TROUPE_TESTKIT", "serial")
	return true
}
