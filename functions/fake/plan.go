package fake

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/functions"
)

// Garbage is a wrong answer.
type Garbage uint8

// The wrong answers.
const (
	None       Garbage = iota
	NaN                // a weight that is not a number
	WrongShape         // a tensor with one element more
	WrongDType         // F64 where F32 belongs
	WrongName          // a tensor renamed
	FewSamples         // one sample fewer than the assignment has
)

// Behaviour is what an attempt will do.
type Behaviour struct {
	Took    time.Duration // until its end; of one that hangs, until it is cancelled
	Hang    bool          // it ends only with its context
	Crash   bool          // it ends as a worker that crashed
	Raise   bool          // it ends as user code that raised
	Garbage Garbage       // what is wrong with its answer
}

// Plan returns what Run does with inv. It depends on the seed, on what names
// the attempt (task, function, job, incarnation, epoch, round, index, attempt), its number of
// samples, and its sabotage; not on what happened before. Slot is left out: the
// cost of an attempt is the same wherever it runs. Script may change it.
func (c Config) Plan(inv functions.Invocation) Behaviour {
	b := c.drawn(inv)
	if c.Script != nil {
		b = c.Script(inv, b)
	}
	return b
}

func (c Config) drawn(inv functions.Invocation) Behaviour {
	draw := rand.New(rand.NewPCG(c.Seed, attemptHash(inv))) //nolint:gosec // chance that repeats is the point
	took := float64(c.Base) + float64(c.PerSample)*float64(len(inv.Positions))
	took *= 1 + c.Jitter*draw.Float64()
	b := Behaviour{Took: time.Duration(took) + inv.Sabotage.Slow}
	if inv.Task == functions.Init {
		b.Hang, b.Crash = stuck(inv.Sabotage), inv.Sabotage.Kill
		return b
	}
	at := draw.Float64()
	strikes := func(probability float64) bool {
		hit := at >= 0 && at < probability
		at -= probability
		return hit
	}
	b.Crash, b.Hang, b.Raise = strikes(c.Crash), strikes(c.Hang), strikes(c.Raise)
	if inv.Task == functions.Train {
		for i, probability := range []float64{c.NaN, c.WrongShape, c.WrongDType, c.WrongName, c.FewSamples} {
			if strikes(probability) {
				b.Garbage = NaN + Garbage(i)
			}
		}
	}
	if inv.Sabotage.Kill || stuck(inv.Sabotage) {
		b.Crash, b.Hang, b.Raise = inv.Sabotage.Kill, stuck(inv.Sabotage), false
	}
	return b
}

// stuck reports whether sabotage has an attempt end only with its context.
func stuck(s functions.Sabotage) bool { return (s.Hang || s.Freeze) && !s.Kill }

// attemptHash is one number for all that names an attempt.
func attemptHash(inv functions.Invocation) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, text := range []string{string(inv.Task), inv.Function, inv.JobID} {
		_, _ = d.WriteString(text)
		_, _ = d.Write([]byte{0})
	}
	var b []byte
	for _, n := range []uint64{inv.Incarnation, uint64(inv.Epoch), uint64(inv.Round), uint64(inv.Index), uint64(inv.Attempt)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	_, _ = d.Write(b)
	return d.Sum64()
}
