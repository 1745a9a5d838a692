package paramserver

import "github.com/asynkron/protoactor-go/actor"

// MaxEnded is how many jobs are remembered whose end the Scheduler has.
const MaxEnded = maxEnded

// Observed is Props whose actor hands out a look at what it knows: the check of
// its invariants, and how many jobs and outboxes it keeps.
func Observed(deps Deps, observe func(check func() error, kept func() (jobs, outboxes int))) *actor.Props {
	return Props(deps).Configure(actor.WithProducer(func() actor.Actor {
		s := newServer(deps)
		observe(s.state.check, func() (int, int) { return len(s.state.jobs), len(s.outboxes) })
		return s
	}))
}
