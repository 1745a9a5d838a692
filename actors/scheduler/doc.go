// Package scheduler is the Scheduler: it queues jobs, knows the slots of the
// hosts, starts each job once, and decides how large it may be.
//
//	SubmitJob         a slot is free           StartJobReply
//	────────> queued ────────────────> starting ───────────> running ──> ended
//	            │                          └── JobFinished or its like ───^
//	            └── StopJob ────────────────────────────────────────────> ended
//
// In: SubmitJob, ResumeJob and StopJob from clients; HostReported and HostLeft from
// FunctionHosts; NodesListed from the cluster's member table, where there is one; StartJobReply, ResizeJobReply, StopJobReply and JobFinished
// from the ParameterServer; RequestParallelism from TrainJobs; JobEventReply
// from the Journal.
// Out: StartJob, ResizeJob, StopJob and JobFinishedReply to the
// ParameterServer; JobEvent (incarnation 0: queued, warned, stopped while
// queued) to the Journal; the replies to what came in.
//
// No order of arrival is relied on, and nothing is relied on to arrive. Each
// second the Scheduler repeats StartJob until it is answered, ResizeJob until
// the job knows its newest size, StopJob until the job has ended, and events
// until the Journal has them; every 5 s it asks how a running job is, by a
// StartJob, which catches up on a lost JobFinished. A job that was answered for
// never starts again: the ParameterServer knows it, and only tells how it is.
//
// ResumeJob queues a job again that has ended, here or in a process that is gone.
// It has a new key; what incarnations up to after_incarnation say is not heard,
// and its sizes are numbered on, so that nothing late of an earlier life counts.
//
// # Sizes
//
// A slot of a host is free unless it is granted to a job or a job's attempt
// still holds it, whichever is more for each job: so what winds down is not
// given away twice. Free slots start queued jobs in order (higher priority
// first, then earlier submission); with an empty queue they go to running jobs
// that have fewer than their N.
//
// N changes for two reasons. A decision: at an epoch's end the Policy says how
// many functions the job should have, and gets them as far as there are free
// slots. A loss: an elastic job that loses slots follows them, and returns to
// its N as they return. What an epoch measured across a loss says little about
// N, so the policy is not asked again until the loss is made good.
//
// # Nodes
//
// A host counts while it reports and, once NodesListed has come, while its node is
// listed. One that is not is gone: its slots are taken back, and every job that has
// something there hears of it in the same instant. Slots go to nodes where the job
// has some already, and to none that lacks a label which it requires; jobs that
// wait for a label hold up nobody.
//
// # Crash
//
// A crash loses the queue and what is known about jobs, so the Scheduler must
// not be restarted in place: whoever spawns it ends the company instead.
package scheduler
