package actorkit

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Load tells how busy an actor system is, at no cost to its messages. It is safe
// for concurrent use. Its zero value is ready.
type Load struct {
	dead atomic.Uint64

	mu        sync.Mutex // guards mailboxes
	mailboxes map[string]actor.Mailbox
}

// Watch counts the dead letters of a system from now on.
func (l *Load) Watch(system *actor.ActorSystem) {
	system.EventStream.Subscribe(func(event any) {
		if _, ok := event.(*actor.DeadLetterEvent); ok {
			l.dead.Add(1)
		}
	})
}

// Mailbox gives an actor a mailbox whose depth is told under a name. Of several
// actors of one name that of the latest is.
func (l *Load) Mailbox(name string) actor.PropsOption {
	produce := actor.Unbounded()
	return actor.WithMailbox(func() actor.Mailbox {
		m := produce()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mailboxes == nil {
			l.mailboxes = map[string]actor.Mailbox{}
		}
		l.mailboxes[name] = m
		return m
	})
}

// Depths says how many messages wait, by name.
func (l *Load) Depths() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	depths := make(map[string]int, len(l.mailboxes))
	for name, m := range l.mailboxes {
		depths[name] = m.UserMessageCount()
	}
	return depths
}

// DeadLetters says how many messages have found nobody so far.
func (l *Load) DeadLetters() uint64 { return l.dead.Load() }
