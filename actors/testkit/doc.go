// Package testkit tests actors without waiting and without luck: real actors of
// github.com/asynkron/protoactor-go run on the goroutine of the test, in an
// order drawn from a seed, under faults and a virtual clock. A run that fails
// prints the one number that replays it.
//
//	func TestTallySurvivesTheNetwork(t *testing.T) {
//		for seed := range testkit.Seeds(t, 100) { // TROUPE_SEEDS=1000 runs more, -seed=N replays one
//			sim := testkit.New(t, seed)
//			sim.Faults = testkit.Faults{Drop: 0.1, Duplicate: 0.1, Delay: 0.2, MaxDelay: time.Second}
//			tally := sim.Spawn("tally", tally.Props())
//			...
//			sim.RunUntil(func() bool { return ... }, time.Minute) // of virtual time, which costs nothing
//		}
//	}
//
// # What an actor must keep to
//
// It takes its time and slow work from an actorkit.Rim, which is Sim.Rim in a
// simulation: no time.Now, time.AfterFunc, receive timeout or future with a
// timeout, no goroutine of its own. Its decisions depend on nothing random but
// Sim.Rand, and not on the order of a map. Parents need not know about
// simulation: whatever is spawned by a simulated actor, by Sim.Spawn or by the
// Root of Sim.System is simulated.
//
// # What is simulated
//
// Every message, timer and piece of slow work that could be next waits in one
// pool, and the seed picks. Messages from one actor to another keep their
// order and arrive once, as the library guarantees for actors of one process;
// everything else may come in any order. Faults (see there) take even that
// away, from messages between actors only. A message looks up its receiver
// when it arrives: one that is late meets whoever has that name by then.
// Supervision, restarts, stops and watches are the library's own code; their
// system messages are never lost, come before user messages as in the library,
// and have seeded places of their own.
//
// The clock stands still while anything is left to deliver, unless Sim.Step
// says otherwise, and then jumps to the next timer. Drain delivers what needs no
// time; Run, RunUntil, Advance, Ask and Expect move the clock. Strategies of the
// library count restarts by the real clock, and its exponential back-off
// waits by it: an actor that shall back off does so through its Rim.
//
// # What a test does
//
// It plays the other side: Send and Ask from outside, a Probe for a peer. It
// hurts the system: Faults, Cut, Crash, CrashAfter, Freeze, Stop, at a time of its choice
// with At. And it says what must hold: Check after every delivery, RunUntil at
// the end. Everything runs on one goroutine, so an actor under test may call
// require, and a test may read an actor's fields.
//
// Tests of real systems, without simulation, find forgotten goroutines with
// LeakCheck; New includes such a check.
package testkit
