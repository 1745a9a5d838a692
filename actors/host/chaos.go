package host

import (
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
)

// A slow attempt is made to wait for this long: [slowLeast, slowMost).
const (
	slowLeast = 50 * time.Millisecond
	slowMost  = 500 * time.Millisecond
)

// Chaos draws what --chaos does to an attempt. It depends on nothing but the
// plan's ChaosPlan and the attempt's epoch, round, function and number: so a
// retry is broken or not by a draw of its own, and the same job draws the same
// again wherever it runs. Only TASK_TRAIN is broken.
//
// Nine numbers in [0, 1) are drawn, in this order: kill, hang, nan, slow, how
// slow, when it strikes, freeze, corrupt, disk-full; then 64 bits, which say what
// is damaged. An attempt is broken in a way when that number is below the plan's
// share, so raising one share changes none of the other draws. Of kill, hang, nan,
// freeze, corrupt and disk-full the first in that order wins; slow comes in
// addition.
func Chaos(inv *messages.Invoke) functions.Sabotage {
	ref, plan := inv.GetAttempt(), inv.GetPlan().GetChaos()
	if plan == nil || ref.GetTask() != messages.Task_TASK_TRAIN {
		return functions.Sabotage{}
	}
	p := newPCG(plan.GetSeed(), ref.GetEpoch(), ref.GetRound(), ref.GetFunction(), ref.GetAttempt())
	kill, hang, nan := p.float() < plan.GetKill(), p.float() < plan.GetHang(), p.float() < plan.GetNan()
	slow, long, at := p.float() < plan.GetSlow(), p.float(), p.float()
	freeze, corrupt, full := p.float() < plan.GetFreeze(), p.float() < plan.GetCorrupt(), p.float() < plan.GetDiskFull()
	damage := p.next()

	s := functions.Sabotage{At: at}
	switch {
	case kill:
		s.Kill = true
	case hang:
		s.Hang = true
	case nan:
		s.NaN = true
	case freeze:
		s.Freeze = true
	case corrupt:
		s.Corrupt, s.Damage = true, damage
	case full:
		s.DiskFull = true
	}
	if slow {
		s.Slow = slowLeast + time.Duration(long*float64(slowMost-slowLeast))
	}
	return s
}

// blames reports whether a failure of an attempt is chaos's doing, and so says
// nothing about the function. An attempt that was only slowed down may have
// timed out for that; else its failure is its own.
func blames(s functions.Sabotage, timedOut bool) bool {
	return s.Kill || s.Hang || s.NaN || s.Freeze || s.Corrupt || s.DiskFull || (timedOut && s.Slow > 0)
}

// pcg is PCG RXS-M-XS 64/64 (O'Neill 2014): 64 bits of state, 64 bits a draw.
// It is our own so that no other library's change breaks what a seed means.
type pcg uint64

const (
	pcgFactor    = 6364136223846793005
	pcgIncrement = 1442695040888963407
)

// newPCG returns a generator that depends on all arguments: each is added to
// the state, which then advances and is mixed with its own output.
func newPCG(seed uint64, coordinates ...uint32) *pcg {
	p := pcg(seed)
	p = pcg(p.next())
	for _, c := range coordinates {
		p += pcg(c)
		p = pcg(p.next())
	}
	return &p
}

func (p *pcg) next() uint64 {
	old := uint64(*p)
	*p = pcg(old*pcgFactor + pcgIncrement)
	word := ((old >> ((old >> 59) + 5)) ^ old) * 12605985483714917081
	return (word >> 43) ^ word
}

// float returns a number in [0, 1), a multiple of 2^-53.
func (p *pcg) float() float64 { return float64(p.next()>>11) * 0x1p-53 }
