package main

import (
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/troupe-ml/troupe/messages"
)

// bar shows a job as one line that changes, below whatever else is written.
type bar struct {
	screen   *screen
	now      func() time.Time
	progress *mpb.Progress
	bar      *mpb.Bar

	mu    sync.Mutex
	meter meter // guarded by mu: the bar draws on a goroutine of its own
	ok    bool  // guarded by mu: the job has succeeded
}

func newBar(screen *screen, epochs uint32, now func() time.Time) *bar {
	b := &bar{screen: screen, now: now, meter: meter{epochs: epochs, phase: "starting"}}
	b.progress = mpb.New(mpb.WithOutput(screen.under), mpb.WithAutoRefresh())
	b.bar = b.progress.New(0, mpb.BarStyle(), mpb.BarFillerTrim(), mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return " " + b.meter.line(b.now())
	})))
	screen.cover(b.progress)
	return b
}

func (b *bar) show(e *messages.JobEvent) {
	b.mu.Lock()
	at := b.now()
	if ms := e.GetTimeMs(); ms > 0 { // long ago perhaps, where a job is followed that runs already
		at = time.UnixMilli(ms)
	}
	b.meter.add(e, at)
	b.ok = b.ok || e.GetEnded().GetResult().GetPhase() == messages.Phase_PHASE_SUCCEEDED
	done, total := b.meter.done, b.meter.total()
	b.mu.Unlock()
	b.bar.SetTotal(int64(total), false)
	b.bar.SetCurrent(int64(done))
}

// close leaves the bar as it is and gives the screen back.
func (b *bar) close() {
	b.mu.Lock()
	ok := b.ok
	b.mu.Unlock()
	if ok {
		b.bar.SetTotal(-1, true)
	} else {
		b.bar.Abort(false)
	}
	b.progress.Wait()
	b.screen.cover(nil)
}
