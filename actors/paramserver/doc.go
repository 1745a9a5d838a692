// Package paramserver is the ParameterServer: it launches TrainJobs, watches
// over them, and starts the next incarnation of one that died.
//
//	StartJob         owned              JobFinished
//	───────> waiting ──────> running ──────────────────────────────────> ended
//	          ^  │ │ another   │ died without a result                    ^  ^
//	 back-off │  │ │ owns it   ├────────────────────┐ too often,          │  │
//	          └──┼─┼───────────┘                    v or to stop          │  │
//	             │ │  it is to stop, or cannot go on                      │  │
//	             └─┼──────────────────────────────> ending ───────────────┘  │
//	               │                                   the store has the end │
//	               └─────────────────────────────────────────────────────────┘
//
// A waiting job is to be owned: the store is asked, off the actor, for the claim
// of its next incarnation. An owner that gives no sign of life for 10 s in which it
// could have been seen is gone; one that does has the job, which is TAKEN_OVER
// then: it has not ended, but is none of this node's any more. A store that is away, or
// full, is asked again each second; people hear of that at once, and once a minute.
//
// In: StartJob, ResizeJob and JobFinishedReply from the Scheduler; StopJob from
// it or from a client; KeepState and JobFinished from its children, the TrainJobs;
// JobEventReply from the Journal; ReleaseTensorsReply from hosts.
// Out: StartJobReply; ResizeJob and StopJob to the TrainJob, which answers the
// asker itself; JobFinished to the Scheduler, again each second until
// JobFinishedReply comes; JobFinishedReply to the TrainJob, which then stops
// itself; JobEvent to the Journal, for a job that ends between two incarnations, and
// ReleaseTensors to the hosts of all nodes, again each second for half a minute.
//
// No order of arrival is relied on. A StartJob starts a job at most once, since
// jobs are remembered until the Scheduler has their end, and a thousand of them
// longer; a repeat tells how the job is. An ended job starts again for a key that
// it never had (a resume), once what it left is let go of; starts, sizes and stops
// of a key that is over change nothing. Messages of a lower term than the
// highest heard of are refused.
//
// # Supervision
//
// A TrainJob is stateful and never restarted in place. One that panics is
// stopped; once it is gone, a child named by the next incarnation starts after
// a back-off of 1, 2, then 4 s, with the newest size that the Scheduler sent.
// After the third respawn without a further merge, and at once for an error that repeating cannot help,
// the job has FAILED with the panic as the reason. A job that was to be stopped
// is not respawned: it is STOPPED. In both cases nobody else is left to say so:
// the ParameterServer has the end stored, under the next incarnation, which is
// claimed for that, and then posts JobEnded under its number. Else the next server
// would take the job for one to go on with. A store that does not take the end in
// 15 s does not keep it from people; they are told so, and it is tried on each second,
// until the job begins anew. What an incarnation has told the store of its own end counts
// for more than what is decided here, and an owner that lives has the job.
//
// A child may stand for a job in a process of its own (package jobprocess), which
// has a ParameterServer and claims the job itself: it may go on under a higher
// incarnation, as its KeepState and JobFinished tell.
//
// # Crash
//
// A crash of the ParameterServer itself stops its children and loses what they
// knew, so it must not be restarted in place: whoever spawns it ends the company
// instead.
package paramserver
