package testkit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
)

// The conversation under test: a till sends each sale until it is acknowledged.
type (
	Sale       struct{ ID, Amount int }
	Ack        struct{ ID int }
	retryTimer struct{}
)

// Ledger adds up sales. A repeat changes nothing.
type Ledger struct {
	Total int
	Seen  map[int]bool
}

func (l *Ledger) Receive(ctx actor.Context) {
	if sale, ok := ctx.Message().(*Sale); ok {
		if !l.Seen[sale.ID] {
			l.Seen[sale.ID] = true
			l.Total += sale.Amount
		}
		ctx.Respond(&Ack{ID: sale.ID})
	}
}

// Till sells n things for one coin each, and tries again each second.
type Till struct {
	Ledger *actor.PID
	Rim    actorkit.Rim
	Open   []int // sales without acknowledgement, by ID
}

func (t *Till) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *retryTimer:
		for _, id := range t.Open {
			ctx.Request(t.Ledger, &Sale{ID: id, Amount: 1})
		}
		if len(t.Open) > 0 {
			t.Rim.SendAfter(time.Second, ctx.Self(), &retryTimer{})
		}
	case *Ack:
		for i, id := range t.Open {
			if id == m.ID {
				t.Open = append(t.Open[:i], t.Open[i+1:]...)
				break
			}
		}
	}
}

// noCoinIsLost is the body of a test.
func noCoinIsLost(t testing.TB, seed uint64) *testkit.Sim {
	sim := testkit.New(t, seed)
	sim.Faults = testkit.Faults{Drop: 0.3, Duplicate: 0.3, Delay: 0.3, MaxDelay: 3 * time.Second}

	ledger := &Ledger{Seen: map[int]bool{}}
	to := sim.Spawn("ledger", actor.PropsFromProducer(func() actor.Actor { return ledger }))
	till := &Till{Ledger: to, Rim: sim.Rim(), Open: []int{1, 2, 3, 4, 5}}
	sim.Spawn("till", actor.PropsFromProducer(func() actor.Actor { return till }))

	sim.Check(func() error { // after every message, whatever happens to it
		if sold := 5 - len(till.Open); ledger.Total < sold {
			return fmt.Errorf("%d sales acknowledged, %d coins in the ledger", sold, ledger.Total)
		}
		return nil
	})
	sim.RunUntil(func() bool { return len(till.Open) == 0 }, time.Hour)
	if ledger.Total != 5 {
		sim.Fail("%d coins in the ledger", ledger.Total)
	}
	return sim
}

// A user tests actors of his own: real ones, on a lossy network, in virtual time.
// In a file of tests, noCoinIsLost would be called by
//
//	func TestNoCoinIsLost(t *testing.T) {
//		for seed := range testkit.Seeds(t, 100) { // -seed=N replays one
//			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { noCoinIsLost(t, seed) })
//		}
//	}
func Example() {
	t, end := newSubject() // a test has its own t
	defer end()
	sim := noCoinIsLost(t, 1)
	fmt.Println("all sold after", sim.Now().Sub(testkit.Epoch))
	fmt.Println("same seed, same run:", sim.Hash() == noCoinIsLost(t, 1).Hash())
	fmt.Println("other seed, same run:", sim.Hash() == noCoinIsLost(t, 2).Hash())
	// Output:
	// all sold after 2s
	// same seed, same run: true
	// other seed, same run: false
}
