package child

import "sync"

// Running is the invocations that processes are at work on. It is safe for
// concurrent use; the zero value has none.
type Running struct {
	mu sync.Mutex // guards at
	at map[*running]bool
}

type running struct {
	jobID string
	index int
	where func() string
}

// Add takes in that a process is at work on an invocation of a job, the index of
// its function, and how to ask where it is, until ended is called.
func (r *Running) Add(jobID string, index int, where func() string) (ended func()) {
	one := &running{jobID, index, where}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[*running]bool{}
	}
	r.at[one] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.at, one)
	}
}

// Stacks says where each invocation of a job is, by index: all are asked at once,
// so that many take no longer than one.
func (r *Running) Stacks(jobID string) map[int]string {
	var of []*running
	r.mu.Lock()
	for one := range r.at {
		if one.jobID == jobID {
			of = append(of, one)
		}
	}
	r.mu.Unlock()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards stacks
	stacks := map[int]string{}
	for _, one := range of {
		wg.Go(func() {
			text := one.where()
			mu.Lock()
			defer mu.Unlock()
			stacks[one.index] = text
		})
	}
	wg.Wait()
	return stacks
}
