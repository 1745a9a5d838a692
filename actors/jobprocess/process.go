package jobprocess

import (
	"context"

	"github.com/troupe-ml/troupe/messages"
)

// Size is how large a job may be.
type Size struct {
	Slots       uint32 // functions that run at once
	Parallelism uint32 // N; 0: as it is
}

// Process is a job in a process of its own. The methods are called off the actor, at
// any time; all but Kill end with ctx, and return Unavailable when the process cannot be
// reached. They may be repeated.
type Process interface {
	// Start hands it the task and the size that it begins with. Conflict: somebody
	// else runs the job, or it has SUCCEEDED. Other kinds: the job cannot go on.
	Start(ctx context.Context, task *messages.TrainTask, size Size) error
	// Resize sets the size. Conflict, Invalid: the job does not take it.
	Resize(ctx context.Context, size Size) error
	// Stop ends the job as STOPPED. Conflict: it has ended, or stores its result.
	Stop(ctx context.Context, reason string) error
	// Check asks for a sign of life, which says how many slots functions hold.
	Check(ctx context.Context) (busy uint32, err error)
	// Kill ends the process and returns once it is gone.
	Kill()
}

// Watch gets what a process says unasked, from any goroutine.
type Watch struct {
	// Events gets the job's events in order, those from an incarnation on. Some
	// may come again, and the queue's (incarnation 0) may be among them.
	Events func([]*messages.JobEvent)
	// Exited is called once, last, with how the process ended.
	Exited func(how string)
}

// Launch starts the process of a job's incarnation, off the actor. It lives no
// longer than ctx. Errors say that no process can be started, with the reason.
type Launch func(ctx context.Context, job *messages.JobRef, watch Watch) (Process, error)
