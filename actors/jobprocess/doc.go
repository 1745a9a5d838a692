// Package jobprocess is what stands where a TrainJob stands when the job runs in a
// process of its own (up --jobs process): a child of the ParameterServer that
// starts the process, hands it the task, passes sizes and stops to it, and what
// happens there to the Journal.
//
//	        launched          has the task       it says that it ended       gone
//	begun ──────────> there ───────────────> at work ───────────────> over ──────> ended
//	  │                 │                       │ its end without a word, or
//	  └─ not startable ─┴───────────────────────┴ no sign of life for about 10 s: crash
//
// The process embeds a company: it claims the job in the store, has the TrainJob,
// and runs its functions. This actor owns nothing but the process. A crash of it
// is the death of the job's incarnation, as that of a TrainJob is: the
// ParameterServer starts the next one, in a new process, from the store.
//
// A process that does not get the job since somebody else runs it, or that loses it,
// ends it here as TAKEN_OVER.
//
// # Messages
//
// In: ResizeJob, StopJob and JobFinishedReply (ParameterServer),
// RequestParallelismReply (Scheduler), JobEventReply (Journal). Out: JobEvent to
// the Journal, again each second until it has them; RequestParallelism to the
// Scheduler, after each epoch of an elastic job, until that answers or the next
// epoch is over; KeepState (how far the job is, no tensors) to the
// ParameterServer, at each merge and once a second; JobFinished to it, until
// JobFinishedReply comes; SlotsLent to the FunctionHost, at each change and once a
// second.
//
// # Incarnations
//
// The process claims the job itself, and its ParameterServer begins the next
// incarnation there should its TrainJob crash. So the job's incarnation is what
// the events say, at least the expected one; KeepState tells the ParameterServer.
//
// # Events
//
// The process gives events in order, and may give them again: what is not the next
// one is dropped, a gap is filled with empty ones (as the Journal's are), and those
// of the queue (incarnation 0) are the server's to tell. The end is passed on once
// the process is gone: its slots are free then, and its claim of the job.
//
// # Sizes
//
// The newest size is passed on until the process has it, slots before N. It takes
// effect there as a size does: N at the next round, slots at once, and what runs on
// a slot that was taken runs to its end: until the process has heard of the size, and
// says that so few slots are held, the FunctionHost hears that it has them all.
package jobprocess
