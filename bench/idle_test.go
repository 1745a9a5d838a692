package bench_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// BenchmarkIdleJobs says what a job costs that waits for its function, and one
// that waits for a slot: in memory, all actors and timers counted, and, as the
// operation, in time from its submission until it waits.
func BenchmarkIdleJobs(b *testing.B) {
	const jobs = 1000
	b.Run("waits-for=function", func(b *testing.B) { benchmarkIdle(b, jobs, jobs) })
	b.Run("waits-for=slot", func(b *testing.B) { benchmarkIdle(b, jobs, 1) })
}

// benchmarkIdle submits jobs to a company on whose slots nothing ever ends.
func benchmarkIdle(b *testing.B, jobs, slots int) {
	b.Helper()
	var grown []float64
	b.StopTimer()
	for range b.N {
		stuck := &stuck{started: make(chan struct{}, slots)}
		c := newCompany(b, slots, plane.NewMemory(node), stuck, false)
		before := inUse()
		b.StartTimer()
		for range jobs {
			c.submit(b, 1, 1)
		}
		for range min(slots, jobs) {
			<-stuck.started
		}
		b.StopTimer()
		grown = append(grown, float64(inUse()-before)/float64(jobs))
	}
	b.ReportMetric(median(grown), "bytes/job")
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*jobs), "µs/job")
}

// inUse returns the bytes that live, on the heap and on stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// stuck is a host.Runner whose attempts end only when they are cancelled.
type stuck struct{ started chan struct{} }

// Starts implements host.Runner.
func (s *stuck) Starts(*messages.Invoke) bool { return false }

// Elsewhere implements host.Runner.
func (s *stuck) Elsewhere(*messages.Invoke) bool { return false }

// Start implements host.Runner.
func (s *stuck) Start(_ *messages.Invoke, _ int, _ func(), done func(*messages.Invoked, error)) (cancel context.CancelCauseFunc) {
	s.started <- struct{}{}
	var once sync.Once
	return func(why error) { once.Do(func() { done(nil, why) }) }
}
