package testkit

import (
	"math/rand/v2"

	"github.com/asynkron/protoactor-go/actor"
)

// What an entry of the pool makes happen.
const (
	carry  = iota // payload, a message, reaches to
	turn          // box processes one message it already holds
	work          // payload, a func() any, runs off the actor to
	action        // payload, a func(), is something the test does
)

// entry is one thing that may happen next.
type entry struct {
	kind    uint8
	from    string // id of the sender
	to      *actor.PID
	box     *mailbox // of a turn; of a carry: the mailbox it was put into already
	payload any
	ordered bool // it keeps its place behind what its sender sent before, though it waits for its time
}

// target returns the id of the actor that an entry is about, "" for none.
func (e entry) target() string {
	switch {
	case e.box != nil:
		return e.box.id
	case e.to != nil:
		return e.to.Id
	}
	return ""
}

// pool holds all that may happen now. Entries of one sender to one receiver
// stay in order; loose ones are in order with nothing.
type pool struct {
	ready []*link // each holds at least one entry
	links map[pair]*link
	spare []*link
}

type pair struct{ from, to string }

// link is the queue from a sender to a receiver, or one loose entry.
type link struct {
	pair  pair
	loose bool
	queue fifo[entry]
}

func newPool() pool { return pool{links: map[pair]*link{}} }

// push adds an entry behind those of the same sender and receiver.
func (p *pool) push(to string, e entry) {
	key := pair{e.from, to}
	l := p.links[key]
	if l == nil {
		l = p.link()
		l.pair, l.loose = key, false
		p.links[key] = l
		p.ready = append(p.ready, l)
	}
	l.queue.push(e)
}

// toss adds a loose entry.
func (p *pool) toss(e entry) {
	l := p.link()
	l.loose = true
	l.queue.push(e)
	p.ready = append(p.ready, l)
}

// pick removes and returns one of the entries that may be next; there must be one.
func (p *pool) pick(rng *rand.Rand) entry {
	i := 0
	if len(p.ready) > 1 {
		i = rng.IntN(len(p.ready))
	}
	l := p.ready[i]
	e := l.queue.pop()
	if l.queue.len() > 0 {
		return e
	}
	last := len(p.ready) - 1
	p.ready[i], p.ready[last] = p.ready[last], nil
	p.ready = p.ready[:last]
	if !l.loose {
		delete(p.links, l.pair)
	}
	l.pair = pair{}
	p.spare = append(p.spare, l)
	return e
}

// turns returns a pool that holds the turns of p and nothing else.
func (p *pool) turns() pool {
	kept := newPool()
	for _, l := range p.ready {
		for l.queue.len() > 0 {
			if e := l.queue.pop(); e.kind == turn {
				kept.toss(e)
			}
		}
	}
	return kept
}

func (p *pool) link() *link {
	last := len(p.spare) - 1
	if last < 0 {
		return &link{}
	}
	l := p.spare[last]
	p.spare = p.spare[:last]
	return l
}

// fifo is a queue that forgets what was taken out and keeps little room.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(item T) {
	if f.head > 16 && f.head > len(f.items)/2 {
		kept := copy(f.items, f.items[f.head:])
		clear(f.items[kept:])
		f.items, f.head = f.items[:kept], 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() T {
	var zero T
	item := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
		if cap(f.items) > 64 {
			f.items = nil
		}
	}
	return item
}
