package testkit

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

// Sim runs real actors on the goroutine of a test, in an order drawn from a
// seed. It is not safe for concurrent use: actors, timers, slow work and the
// test itself all run on the goroutine that calls its methods. So an actor may
// use the test's require functions, and a test may read an actor's fields.
type Sim struct {
	// Faults is what happens to messages between actors. It may be changed at
	// any time and governs what is sent from then on.
	Faults Faults
	// Cut, unless nil, loses every message between actors for which it reports
	// true: a partition, or the loss of one certain message.
	Cut func(from, to *actor.PID, msg any) bool
	// Step is the virtual time that passes with each delivery. With 0 time
	// stands still until nothing is left to deliver; with more, timers and
	// actions of At fall between the messages of one burst.
	Step time.Duration
	// Work, unless nil, says how long a piece of slow work of an actor is under
	// way before it is done, all of it at the end.
	Work func(to *actor.PID) time.Duration
	// Limit is how many deliveries there may be at one instant of virtual time
	// before the test fails for a livelock; New sets ten million.
	Limit int

	t       testing.TB
	seed    uint64
	rng     *rand.Rand
	system  *actor.ActorSystem
	options []actor.PropsOption
	roots   []*actor.PID // in the order they were spawned
	checks  []func() error
	crashes map[string]crash // by actor id, until its next message
	frozen  []freeze
	counts  Counts

	pool    pool
	timers  timers
	set     uint64        // timers set so far
	elapsed time.Duration // virtual time since the start
	instant int           // deliveries since virtual time moved

	running  *mailbox // whose turn it is; nil outside of actors
	arriving string   // sender of the message being put into a mailbox
	arrived  *mailbox // where it went; nil for what has no mailbox
	handing  bool     // a message of the pool is being put into a mailbox
	adopting bool     // a spawn is being given the options already
	closing  bool     // only stops are still processed
	checking bool     // invariants are being evaluated
	broken   bool     // the test has failed, nothing runs any more

	trace trace
	names map[reflect.Type]*named
	asks  uint64
}

// New returns a simulation in which the same seed gives the same run. When the
// test ends, its actors are stopped (their last messages, timers and slow work
// are dropped), and the test fails if a goroutine is left that was started by
// the test's own goroutine, directly or through others, after New.
func New(t testing.TB, seed uint64) *Sim {
	t.Helper()
	s := &Sim{
		Limit:   10_000_000,
		t:       t,
		seed:    seed,
		rng:     rand.New(rand.NewPCG(seed, 0x7472_6f75_7065)),
		crashes: map[string]crash{},
		pool:    newPool(),
		names:   map[reflect.Type]*named{},
	}
	leaked := label(t)
	s.system = newSystem(s)
	s.options = []actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox { return &mailbox{sim: s} }),
		actor.WithSenderMiddleware(s.intercept),
		actor.WithSpawnMiddleware(s.adopt),
	}
	t.Cleanup(func() {
		s.close()
		leaked()
	})
	return s
}

// System returns the actor system of the simulation. What is sent or spawned
// through its Root is simulated too.
func (s *Sim) System() *actor.ActorSystem { return s.system }

// Rim returns the actors' outside world: a virtual clock that begins at Epoch,
// and slow work that runs at once at a seeded later point. The result of work
// that has a method Took() time.Duration arrives after that much virtual time.
// Timers and results are never lost, repeated or delayed.
func (s *Sim) Rim() actorkit.Rim { return rim{s} }

// Now returns the virtual time.
func (s *Sim) Now() time.Time { return Epoch.Add(s.elapsed) }

// Seed returns the number the run is drawn from.
func (s *Sim) Seed() uint64 { return s.seed }

// Rand returns the simulation's source of random numbers, for choices of the
// test that shall follow the seed.
func (s *Sim) Rand() *rand.Rand { return s.rng }

// Options returns what makes an actor a simulated one. Spawn, the system's Root
// and simulated parents add them to every Props, so passing them on is only
// needed where an actor must be built with them explicitly.
func (s *Sim) Options() []actor.PropsOption {
	return append([]actor.PropsOption(nil), s.options...)
}

// Spawn starts a root actor. A name that is taken fails the test.
func (s *Sim) Spawn(name string, props *actor.Props) *actor.PID {
	s.t.Helper()
	pid, err := s.system.Root.SpawnNamed(props, name)
	if err != nil {
		s.t.Fatalf("testkit: spawn %q: %v", name, err)
	}
	return pid
}

// Send sends msg from the test: it is never lost, repeated or delayed, and
// arrives after what the test sent to the same actor before.
func (s *Sim) Send(to *actor.PID, msg any) {
	s.send(fromTest, to, &actor.MessageEnvelope{Message: msg})
}

// Stop stops an actor and its children, as their parent would.
func (s *Sim) Stop(pid *actor.PID) { s.system.Root.Stop(pid) }

// Crash makes an actor panic with err in place of handling its next message,
// which is lost.
func (s *Sim) Crash(pid *actor.PID, err error) { s.crashes[pid.Id] = crash{err: err} }

// CrashAfter makes an actor panic with err once it has handled its next
// message: what it sent is out, what it knew is gone.
func (s *Sim) CrashAfter(pid *actor.PID, err error) { s.crashes[pid.Id] = crash{err: err, after: true} }

// Freeze stops actors for some time, as SIGSTOP stops a process: no message,
// timer or slow work of those whose id which reports true happens before it is
// over. Nothing is lost by it.
func (s *Sim) Freeze(d time.Duration, which func(id string) bool) {
	s.frozen = append(s.frozen, freeze{until: s.elapsed + d, which: which})
}

// Check adds an invariant. It is evaluated after every delivery, and an error
// stops the run and fails the test.
func (s *Sim) Check(invariant func() error) { s.checks = append(s.checks, invariant) }

// Alive reports whether there is an actor of this name that has not stopped.
func (s *Sim) Alive(pid *actor.PID) bool {
	_, ok := s.system.ProcessRegistry.Get(pid)
	return ok
}

// Idle returns Props of an actor that ignores everything.
func Idle(s *Sim) *actor.Props {
	return actor.PropsFromFunc(func(actor.Context) {}, s.options...)
}

type crash struct {
	err   error
	after bool // once the message is handled, rather than in its place
}

// freeze is what Freeze was called with.
type freeze struct {
	until time.Duration
	which func(id string) bool
}

// thaws returns until when an actor is frozen; not later than now: it is not.
func (s *Sim) thaws(id string) (until time.Duration) {
	s.frozen = slices.DeleteFunc(s.frozen, func(f freeze) bool { return f.until <= s.elapsed })
	for _, f := range s.frozen {
		if id != "" && f.until > until && f.which(id) {
			until = f.until
		}
	}
	return until
}

// adopt is spawn middleware that makes every child a simulated actor.
func (s *Sim) adopt(next actor.SpawnFunc) actor.SpawnFunc {
	return func(system *actor.ActorSystem, id string, props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		if s.adopting {
			return next(system, id, props, parent)
		}
		s.adopting = true
		defer func() { s.adopting = false }()
		return next(system, id, props.Clone(s.options...), parent)
	}
}

// adoptRoot does the same for root actors. The library's own last link of
// this chain forgets the guardian of the Props; its default spawner does not.
func (s *Sim) adoptRoot(actor.SpawnFunc) actor.SpawnFunc {
	return func(system *actor.ActorSystem, id string, props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		pid, err := actor.DefaultSpawner(system, id, props.Clone(s.options...), parent)
		if err == nil {
			s.roots = append(s.roots, pid)
		}
		return pid, err
	}
}

// close stops all actors, parents first, and drops everything else.
func (s *Sim) close() {
	s.closing = true
	s.Faults, s.Cut, s.checks = Faults{}, nil, nil
	s.pool = s.pool.turns()
	for _, t := range s.timers {
		t.index = -1 // whoever cancels it finds it gone
	}
	s.timers = nil
	if !s.t.Failed() { // a failed test may have left an actor halfway through a message
		for i := len(s.roots) - 1; i >= 0; i-- {
			s.Stop(s.roots[i])
		}
		s.Limit += s.instant
		s.Drain()
	}
	if !s.system.IsStopped() {
		s.system.Shutdown()
	}
}
