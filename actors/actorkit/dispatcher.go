package actorkit

import "github.com/asynkron/protoactor-go/actor"

// dispatcher runs each burst of an actor's messages on a goroutine of its own,
// as the library does by default, but with Roomy.
type dispatcher struct{}

var _ actor.Dispatcher = dispatcher{}

// Schedule implements actor.Dispatcher.
func (dispatcher) Schedule(burst func()) { go Roomy(burst) }

// Throughput implements actor.Dispatcher: after how many messages a burst lets
// others run.
func (dispatcher) Throughput() int { return 300 }

// Roomy calls f on a goroutine that has just begun, after it has grown its stack
// to 8 KiB in one step. A new one has 2 KiB, which the frames of the actor library
// fill: it would grow below them, once or twice, and each of them would have to
// be found and moved. That took 40 % of a round of functions that do nothing.
func Roomy(f func()) {
	grow(0)
	f()
}

// grow has a frame for which 4 KiB are too little.
//
//go:noinline
func grow(i int) byte {
	var frame [3 << 10]byte
	return frame[i]
}
