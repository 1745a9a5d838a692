// Package train is the TrainJob, the actor of one job: it cuts each epoch into
// rounds, has one FunctionInvoker run each assignment, supervises them, merges
// what they answer, validates, and keeps the history. It owns the reference
// model. Beside the actor it offers what the Go package train of KubeML does:
// NewTrainJob(logger, task, company).Train().
//
//	init ──> round ──> merge ─┬─> round …                 (the epoch has more to do)
//	                          └─> validation ──> round …  (the next epoch)
//	                                        └──> save ──> ended
//	any of them ──> ended, FAILED or STOPPED
//
// A round is a pure function of (model version, optimizer states, assignments,
// seeds), so an assignment may be tried again, elsewhere, and gives the bits
// that the first attempt would have given. state.go and its neighbours decide
// (no clock, context or I/O); job.go and merge.go act; supervise.go is where
// the two meet a failing child.
//
// In: FunctionFinished and FunctionLost (invokers), ResizeJob,
// RequestParallelismReply and StopJob (Scheduler), JobFinishedReply
// (ParameterServer), JobEventReply (Journal), MergePlanReply (hosts). Out: Invoke
// to its invokers, MergePlan to hosts of other nodes that have much to merge,
// ReleaseTensors to the hosts that worked for it, RequestParallelism to the
// Scheduler, JobEvent to the Journal, JobFinished to its parent.
//
// To the next incarnation it leaves its state: after each merge KeepState to the
// hosts, and beside the rounds the newest state to the store, through its Vault.
// An incarnation that is not the first asks the host of every node with AskState what
// it has, waits a second at most for AskStateReply, and goes on from the later of the
// states that they keep and the store's (docs/adr/0012-checkpoints.md). Whoever has
// tensors, be it said later, is told what may go; each is told of the end. One that hears from a beat or a
// save that a later one owns the job ends at once.
//
// Nothing is relied on to arrive: what is not answered is sent again each
// second, and whatever does not name the open attempt is dropped. An unanswered
// RequestParallelism leaves N as it is after two seconds.
//
// A crash loses the round in flight: the job is stateful and never restarted in
// place; its ParameterServer spawns the next incarnation, which goes on from the
// last merge.
package train
