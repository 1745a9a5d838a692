package testkit_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
)

// subject is a test that is expected to fail.
type subject struct {
	testing.TB
	text     string
	log      string
	failed   bool
	cleanups []func()
}

func (s *subject) Helper()           {}
func (s *subject) Name() string      { return "TestSubject/seed=7" }
func (s *subject) Failed() bool      { return s.failed }
func (s *subject) Cleanup(do func()) { s.cleanups = append(s.cleanups, do) }

func (s *subject) Logf(format string, args ...any) { s.log += fmt.Sprintf(format, args...) }

func (s *subject) Errorf(format string, args ...any) {
	s.failed = true
	s.text += fmt.Sprintf(format, args...)
}

func (s *subject) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// outcome runs a test to its end, cleanups included.
func outcome(t *testing.T, test func(t testing.TB)) *subject {
	s, end := newSubject()
	s.TB = t
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer end()
		test(s)
	}()
	<-done
	return s
}

// newSubject returns a subject and what runs its cleanups.
func newSubject() (s *subject, end func()) {
	s = &subject{}
	return s, func() {
		for _, do := range slices.Backward(s.cleanups) {
			do()
		}
	}
}

func TestWhatFailsARunSaysWhyAndHowToReplay(t *testing.T) {
	never := func() bool { return false }
	ticking := func(sim *testkit.Sim) {
		sim.Spawn("ticking", actor.PropsFromFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started, *tick:
				sim.Rim().SendAfter(time.Second, ctx.Self(), &tick{})
			}
		}))
	}
	tests := []struct {
		name string
		run  func(sim *testkit.Sim)
		want string
	}{
		{"running dry", func(sim *testkit.Sim) {
			sim.Spawn("idle", testkit.Idle(sim))
			sim.RunUntil(never, time.Hour)
		}, "the condition did not hold, and nothing is left to happen"},
		{"time is over", func(sim *testkit.Sim) {
			ticking(sim)
			sim.RunUntil(never, time.Minute)
		}, "the condition did not hold within 1m0s of virtual time"},
		{"time is over while time passes by deliveries", func(sim *testkit.Sim) {
			sim.Step = time.Second
			ticking(sim)
			sim.RunUntil(never, time.Minute)
		}, "the condition did not hold within 1m0s of virtual time"},
		{"a run that does not end", func(sim *testkit.Sim) {
			ticking(sim)
			sim.Run(time.Minute)
		}, "still running after 1m0s of virtual time"},
		{"a broken invariant", func(sim *testkit.Sim) {
			probe := sim.Probe("probe")
			sim.Check(func() error {
				if len(probe.Messages()) > 2 {
					return errors.New("three are too many")
				}
				return nil
			})
			sim.Spawn("source", sending(probe.PID, numbers(5)...))
			sim.Drain()
		}, "invariant broken: three are too many"},
		{"a livelock", func(sim *testkit.Sim) {
			sim.Limit = 100
			sim.Send(sim.Spawn("self", actor.PropsFromFunc(func(ctx actor.Context) {
				if n, ok := ctx.Message().(*number); ok {
					ctx.Send(ctx.Self(), n)
				}
			})), &number{})
			sim.Drain()
		}, "livelock: more than 100 deliveries"},
		{"a request without answer", func(sim *testkit.Sim) {
			sim.Ask(sim.Spawn("idle", testkit.Idle(sim)), &query{})
		}, "no answer of idle to query, and nothing is left to happen"},
		{"a request to nobody", func(sim *testkit.Sim) {
			sim.Ask(actor.NewPID("nonhost", "nobody"), &query{})
		}, "no actor nobody to answer query"},
		{"an answer of another type", func(sim *testkit.Sim) {
			testkit.Ask[string](sim, sim.Spawn("c", actor.PropsFromProducer(newCounter)), &query{})
		}, "c answered query with int, want string"},
		{"a message that does not come", func(sim *testkit.Sim) {
			testkit.Expect[*number](sim.Probe("probe"))
		}, "probe received no *testkit_test.number"},
		{"a message that should not come", func(sim *testkit.Sim) {
			probe := sim.Probe("probe")
			sim.Send(probe.PID, &number{})
			testkit.ExpectNone[*number](probe)
		}, "probe received an unexpected *testkit_test.number"},
		{"a response to nobody", func(sim *testkit.Sim) {
			sim.Probe("probe").Respond(&number{})
		}, "probe has nobody to respond to"},
		{"a simulation inside a simulation", func(sim *testkit.Sim) {
			sim.Spawn("actor", actor.PropsFromFunc(func(actor.Context) { sim.Drain() }))
			sim.Drain()
		}, "cannot be run from inside an actor"},
		{"a name that is taken", func(sim *testkit.Sim) {
			sim.Spawn("a", testkit.Idle(sim))
			sim.Spawn("a", testkit.Idle(sim))
		}, `spawn "a": spawn: name exists`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := outcome(t, func(t testing.TB) {
				test.run(testkit.New(t, 7))
				require.FailNow(t, "the run went on")
			})
			require.True(t, s.failed)
			require.Contains(t, s.text, test.want)
			require.NotContains(t, s.text, "went on")
			if !strings.Contains(test.want, "spawn:") {
				require.Contains(t, s.text, "replay: go test -run '^TestSubject$' -seed=7")
				require.Contains(t, s.text, "deliveries, the last of them:")
			}
		})
	}
}

func TestABrokenInvariantStopsTheRunAtTheDeliveryThatBrokeIt(t *testing.T) {
	got := 0
	s := outcome(t, func(t testing.TB) {
		sim := testkit.New(t, 7)
		sink := sim.Spawn("sink", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*number); ok {
				got++
			}
		}))
		sim.Check(func() error {
			if got == 3 {
				return errors.New("three")
			}
			return nil
		})
		sim.Spawn("source", sending(sink, numbers(10)...))
		sim.Drain()
	})
	require.True(t, s.failed)
	require.Equal(t, 3, got)
	require.Contains(t, s.text, "source -> sink number  &{2}\n\nreplay", "the report ends with it")
}

func TestAnAssertionInsideAnActorEndsTheTest(t *testing.T) {
	s := outcome(t, func(t testing.TB) {
		sim := testkit.New(t, 7)
		sim.Send(sim.Spawn("a", actor.PropsFromFunc(func(ctx actor.Context) {
			if n, ok := ctx.Message().(*number); ok {
				t.Fatalf("got %d", n.n)
			}
		})), &number{5})
		sim.Drain()
		t.Errorf("went on")
	})
	require.Equal(t, "got 5", s.text)
}

func TestABugInAnActorShowsItsStack(t *testing.T) {
	s := outcome(t, func(t testing.TB) {
		sim := testkit.New(t, 7)
		var none *counter
		sim.Send(sim.Spawn("buggy", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*number); ok {
				none.n++
			}
		})), &number{})
		sim.Drain()
		require.Contains(t, sim.Trace(), "0s (test) -> buggy number (panicked)")
	})
	require.False(t, s.failed, s.text)
	require.Contains(t, s.log, "buggy panicked at number: runtime error: invalid memory address")
	require.Contains(t, s.log, "fail_test.go")
}

// A leak is found even where others start goroutines meanwhile.
func TestALeakedGoroutineFailsTheTestThatStartedIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		setup func(t testing.TB)
	}{
		{"in a simulation", func(t testing.TB) { testkit.New(t, 1) }},
		{"in a real system", testkit.LeakCheck},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			defer close(stop)
			s := outcome(t, func(t testing.TB) {
				test.setup(t)
				go func() { go leakedByTest(stop) }()
			})
			require.True(t, s.failed)
			require.Contains(t, s.text, "leakedByTest")

			s = outcome(t, func(t testing.TB) {
				test.setup(t)
				ended := make(chan struct{})
				go func() { <-ended }()
				close(ended)
			})
			require.False(t, s.failed, s.text)
		})
	}
}

// In a test that is not parallel, goroutines of timers count too.
func TestALeakedTimerFailsASerialTest(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	s := outcome(t, func(t testing.TB) {
		testkit.LeakCheck(t)
		started := make(chan struct{})
		time.AfterFunc(0, func() { close(started); leakedByTest(stop) })
		<-started
	})
	require.True(t, s.failed)
	require.Contains(t, s.text, "leakedByTest")
}

func leakedByTest(stop chan struct{}) { <-stop }

func TestSeeds(t *testing.T) {
	if want := os.Getenv("TESTKIT_WANT_SEEDS"); want != "" {
		got := ""
		for seed := range testkit.Seeds(t, 3) {
			got += fmt.Sprint(seed, " ")
		}
		require.Equal(t, want, got)
		return
	}
	tests := []struct {
		name, want string
		env, args  []string
	}{
		{"count from one", "1 2 3 ", []string{"TROUPE_SEEDS="}, nil},
		{"are as many as the environment says", "1 2 3 4 5 ", []string{"TROUPE_SEEDS=5"}, nil},
		{"are the one to replay", "9 ", []string{"TROUPE_SEEDS=5"}, []string{"-seed=9"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], append(test.args, "-test.run=^TestSeeds$")...)
			cmd.Env = append(append(os.Environ(), test.env...), "TESTKIT_WANT_SEEDS="+test.want)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
	s := outcome(t, func(tb testing.TB) {
		t.Setenv("TROUPE_SEEDS", "many")
		testkit.Seeds(tb, 3)
	})
	require.Contains(t, s.text, "TROUPE_SEEDS=many")
}
