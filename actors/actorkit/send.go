package actorkit

import "github.com/asynkron/protoactor-go/actor"

// Send is ctx.Send to an actor that may be on a node which is not there: to nil
// nothing is sent. As a message may get lost in any case, whoever waits for what
// follows from one sends it again, to wherever its receiver is by then.
func Send(ctx actor.Context, to *actor.PID, msg any) {
	if to != nil {
		ctx.Send(to, msg)
	}
}

// Request is Send for what is answered.
func Request(ctx actor.Context, to *actor.PID, msg any) {
	if to != nil {
		ctx.Request(to, msg)
	}
}
