// Package invoker is the FunctionInvoker: it gets one assignment's function run
// on a slot, one attempt after the other.
//
//	        Invoke                     Invoked
//	idle ───────────> waiting ─────────────────────> done ──> (stopped by the job)
//	 ^                 │   │ 10 s without a sign of the host
//	 │ restarted       │   └──────────────────────> lost ── Invoke (next attempt) ─> waiting
//	 └── InvokeFailed: │
//	     it panics  <──┘
//
// In: Invoke from its TrainJob (one attempt after the other, repeats are
// harmless), InvokeAccepted, Invoked and InvokeFailed from the FunctionHost.
// Out: Invoke and CancelInvocation to the host, FunctionStarted,
// FunctionFinished and FunctionLost to the TrainJob.
//
// Nothing is relied on to arrive: each second the invoker repeats what it waits
// for, Invoke to the host (which is the lease of the attempt, too) or its news
// to the job, until the job stops it or sends a later attempt. A function's
// failure is the invoker's own failure: it panics with the error, and its
// supervisor, the TrainJob, decides. It keeps no state that a restart would
// miss: the next attempt arrives in the next Invoke.
package invoker
