// Package journal is the Journal: the actor that keeps what happens to jobs, in
// order, and shows it to whoever watches.
//
// # An event
//
//	JobEvent ──> of a lower incarnation than seen before: answered, not shown
//	        ├──> ahead of a gap: held until the gap is filled
//	        └──> next of its incarnation: kept, shown to the job's watchers
//	                 │
//	                 └──> dropped when there are too many (below)
//
// An event's place is (incarnation, seq). Within an incarnation they are shown
// in order and without gaps; once an event of a higher incarnation has come,
// the lower one has lost the job, and what it still says is not shown.
//
// # Messages
//
// In: JobEvent (TrainJob, Scheduler), each answered by JobEventReply; WatchJob
// (watchers). Out: JobEvent to watchers. Senders repeat what was not answered,
// so events may come late, repeatedly and in any order. A watcher gets, on each
// WatchJob, everything after its cursor, and from then on what is new, until it
// has stopped.
//
// # Gaps
//
// What a watcher gets has no gaps: an event that was dropped here comes as one
// with nothing in it but its place. So a watcher takes the event whose seq
// follows its cursor's, or that is the first of a higher incarnation, and shows
// it unless it is empty. Any other is a repeat, or comes after a message that
// got lost, which the answer to the next WatchJob brings again.
//
// A gap towards the Journal that the sender does not fill though it repeats
// what comes after it, ten times over, is one that it cannot fill: the events
// after it are shown, and those in it are dropped ones.
//
// # Memory
//
// Of a job at most 10,000 events are kept: of more, the oldest RoundMerged goes
// first, then the oldest of any kind. Of jobs that have ended, the last 100
// are kept.
//
// # What a crash loses
//
// What is kept outlives a restart of the actor, which loses one message. It
// ends with the process.
package journal
