// Package host is the FunctionHost: the actor that owns the slots of one node
// and runs on them what FunctionInvokers ask for, through a Runner.
//
// # An attempt
//
//	         Invoke            a slot is free           the runtime returns
//	unknown --------> queued ------------------> running -----------------> ended
//	   ^                |                           |   function time-out    |
//	   |  lost lease    |                           |                        |
//	   +----------------+---------------------------+                        |
//	                    |  CancelInvocation         |                        |
//	                    v                           v                        v
//	                cancelled (remembered)                    forgotten, with its step:
//	                                                  ReleaseTensors, or a later step
//
// Attempts queue in order of arrival. An attempt ends once; its end is kept and
// given to every repeat of Invoke, until its step is released or the job goes
// on to a later step. What was cancelled, or is of an earlier step or a lower
// incarnation than the job has reached here, starts nothing: InvokeFailed,
// CONFLICT. A later step cancels what the job's earlier ones still queue or run.
//
// # A slot
//
//	       start           its run is cancelled              1 s without a return
//	free --------> busy -----------------------> cancelled -----------------------> retired
//	  ^              |                                |                               |
//	  +--------------+--------------------------------+-------------------------------+
//	                               the runtime returned
//
// Whoever cancels a run, its slot is free only once the runtime has returned: a
// retired slot is not offered any more, and comes back should its run return
// after all.
//
// A slot on which the last 3 attempts failed for reasons of the slot (its worker
// crashed, its time was over, there was no room), while other slots answered, is in
// quarantine: not offered for 30 s, after which one attempt decides whether it is
// well, or not offered for twice as long, up to 10 minutes (quarantine.go). One
// slot that is usable always stays. What a function does that runs elsewhere (at an
// endpoint) says nothing about its slot.
//
// An attempt whose function may take long to start (an endpoint that was scaled to
// zero) holds its slot from the start, but runs, as far as InvokeAccepted and its
// run time say, only once its function is at work.
//
// A host whose slots somebody else grants offers as many of them as the last
// OfferSlots says; of more than that none begins. What jobs in processes of their
// own have of the slots (SlotsLent) counts as held.
//
// # Messages
//
// In: Invoke, CancelInvocation (FunctionInvoker), MergePlan, ReleaseTensors, KeepState,
// AskState (TrainJob), AskStacks (a client), OfferSlots (whoever grants this process its slots),
// SlotsLent (who stands for a job in a process of its own).
// Out: InvokeAccepted, Invoked, InvokeFailed (to whoever sent the last Invoke of
// the attempt), MergePlanReply, ReleaseTensorsReply (where everything is released), AskStateReply, AskStacksReply,
// OfferSlotsReply, HostReported, HostLeft (Scheduler). No order among messages is relied on: steps, incarnations
// and the memory of what was cancelled make late and repeated ones harmless, and
// senders repeat what got lost.
//
// # What a crash loses
//
// The actor is restarted in place, with a new boot, and knows no attempt any
// more: the repeats of Invoke run them anew. Runs outlive it: they are
// cancelled, and hold their slots in the new boot until they return. What a run
// returned with lies on the run, so the crash over that very message loses
// nothing. The states that it keeps of jobs outlive it, too. Answers are found by their keys when they are released. Which slots
// were in quarantine is forgotten, and for a second what is lent.
package host
