// Package paramserver is the ParameterServer: it launches TrainJobs, watches
// over them, and starts the next incarnation of one that died.
//
//	StartJob              JobFinished
//	────────> running ─────────────────────────────────────> ended
//	           ^   │ died without a result   │ too often,     ^
//	  back-off │   v                         v or to be stopped
//	           waiting ───────────────────────────────────────┘
//
// In: StartJob, ResizeJob and JobFinishedReply from the Scheduler; StopJob from
// it or from a client; JobFinished from its children, the TrainJobs;
// JobEventReply from the Journal.
// Out: StartJobReply; ResizeJob and StopJob to the TrainJob, which answers the
// asker itself; JobFinished to the Scheduler, again each second until
// JobFinishedReply comes; JobFinishedReply to the TrainJob, which then stops
// itself; JobEvent to the Journal, for a job that ends between two incarnations.
//
// No order of arrival is relied on. A StartJob starts a job at most once, since
// jobs are remembered until the Scheduler has their end, and a thousand of them
// longer; a repeat tells how the job is. Messages of a lower term than the
// highest heard of are refused.
//
// # Supervision
//
// A TrainJob is stateful and never restarted in place. One that panics is
// stopped; once it is gone, a child named by the next incarnation starts after
// a back-off of 1, 2, then 4 s, with the newest size that the Scheduler sent.
// After the third respawn, and at once for an error that repeating cannot help,
// the job has FAILED with the panic as the reason. A job that was to be stopped
// is not respawned: it is STOPPED. In both cases nobody else is left to say so,
// and the ParameterServer posts JobEnded under the next incarnation's number.
//
// # Crash
//
// A crash of the ParameterServer itself stops its children and loses what they
// knew, so it must not be restarted in place: whoever spawns it ends the company
// instead.
package paramserver
