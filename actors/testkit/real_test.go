package testkit_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
)

// diary is what each actor of a scenario saw, in its order.
type diary struct {
	mu    sync.Mutex // guards seen
	seen  map[string][]string
	until string        // the entry that ends the scenario
	ended chan struct{} // closed by it
}

func newDiary(until string) *diary {
	return &diary{seen: map[string][]string{}, until: until, ended: make(chan struct{})}
}

func (d *diary) note(ctx actor.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := strings.TrimPrefix(fmt.Sprintf("%T", ctx.Message()), "*")
	if n, ok := ctx.Message().(*number); ok {
		entry += fmt.Sprint(n.n)
	}
	id := ctx.Self().Id
	d.seen[id] = append(d.seen[id], entry)
	if id+" "+entry == d.until {
		close(d.ended)
	}
}

// family is a parent with a child that fails at a word, and a grandchild.
func family(d *diary, strategy actor.SupervisorStrategy) *actor.Props {
	grandchild := actor.PropsFromFunc(d.note)
	child := actor.PropsFromFunc(func(ctx actor.Context) {
		d.note(ctx)
		switch ctx.Message().(type) {
		case *actor.Started:
			_, _ = ctx.SpawnNamed(grandchild, "grandchild")
		case *word:
			panic(errors.New("a word"))
		}
	})
	return actor.PropsFromFunc(func(ctx actor.Context) {
		d.note(ctx)
		switch ctx.Message().(type) {
		case *actor.Started:
			pid, _ := ctx.SpawnNamed(child, "child")
			for _, msg := range []any{&number{0}, &word{}, &number{1}, &number{2}} {
				ctx.Send(pid, msg)
			}
		}
	}, actor.WithSupervisor(strategy))
}

// A simulated actor sees what a real one sees, whatever its supervisor decides.
func TestSimulatedActorsSeeWhatRealOnesSee(t *testing.T) {
	always := func(d actor.Directive) actor.SupervisorStrategy {
		return actor.NewOneForOneStrategy(10, time.Minute, func(any) actor.Directive { return d })
	}
	tests := []struct {
		name     string
		strategy actor.SupervisorStrategy
		until    string
	}{
		{"resume", always(actor.ResumeDirective), "parent/child testkit_test.number2"},
		{"restart", always(actor.RestartDirective), "parent/child testkit_test.number2"},
		{"stop", always(actor.StopDirective), "parent actor.Terminated"},
		{"no restart left", actor.NewOneForOneStrategy(0, 0, actor.DefaultDecider), "parent actor.Terminated"},
		{"all for one", actor.NewAllForOneStrategy(10, time.Minute, actor.DefaultDecider), "parent/child testkit_test.number2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testkit.LeakCheck(t)
			real := newDiary(test.until)
			system := actorkit.NewSystem(zap.NewNop())
			parent, err := system.Root.SpawnNamed(family(real, test.strategy), "parent")
			require.NoError(t, err)
			<-real.ended
			require.NoError(t, system.Root.StopFuture(parent).Wait())
			system.Shutdown()
			require.NotEmpty(t, real.seen["parent/child/grandchild"])

			for seed := range testkit.Seeds(t, 20) {
				sim := testkit.New(t, seed)
				simulated := newDiary(test.until)
				parent := sim.Spawn("parent", family(simulated, test.strategy))
				sim.Drain()
				sim.Stop(parent)
				sim.Drain()
				require.Equal(t, real.seen, simulated.seen, "seed %d", seed)
				require.False(t, sim.Alive(parent))
			}
		})
	}
}

// The strategy of a root actor is the guardian of its Props.
func TestGuardiansSuperviseRootActors(t *testing.T) {
	sim := testkit.New(t, 1)
	pid := sim.Spawn("root", actor.PropsFromProducer(newCounter,
		actor.WithGuardian(actor.NewOneForOneStrategy(0, 0, actor.DefaultDecider))))
	sim.Crash(pid, errors.New("boom"))
	sim.Send(pid, &number{})
	sim.Drain()
	require.False(t, sim.Alive(pid))
}

// Actors that come and go leave nothing behind in the simulation, once the
// tables of the library's registry have their size.
func TestMemoryStaysFlat(t *testing.T) {
	sim := testkit.New(t, 1)
	sim.Faults = testkit.Faults{Duplicate: 0.1, Delay: 0.1, MaxDelay: time.Millisecond}
	parent := sim.Spawn("parent", actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *number:
			pid := ctx.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*query); ok {
					sim.Rim().SendAfter(time.Hour, ctx.Self(), &tick{})() // set and cancelled
					ctx.Respond(&word{})
					ctx.Stop(ctx.Self())
				}
			}))
			ctx.Request(pid, &query{})
			if m.n > 0 {
				sim.Rim().SendAfter(time.Second, ctx.Self(), &number{m.n - 1})
			}
		}
	}))
	var sizes []uint64
	for range 3 {
		sim.Send(parent, &number{100000})
		sim.Run(200 * time.Hour)
		sizes = append(sizes, heapInUse())
	}
	require.InEpsilon(t, sizes[0], sizes[2], 0.1, "bytes in use after each 100,000 actors: %v", sizes)
	require.Less(t, slices.Max(sizes), uint64(64<<20))
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
