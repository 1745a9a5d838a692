package scheduler

import (
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Measurement is what an epoch of a job took.
type Measurement struct {
	Parallelism uint32  // N of its last round, at least 1
	Seconds     float64 // training, validation apart; finite, > 0
	Samples     uint64  // trained, at least 1
}

// perSample returns the epoch's time per sample in seconds, > 0.
func (m Measurement) perSample() float64 { return m.Seconds / float64(m.Samples) }

// Policy says how many functions a job should have in its next epoch.
type Policy interface {
	// Name is what NewPolicy takes.
	Name() string
	// Parallelism returns the N that the job should have next. Past holds what
	// its epochs measured, oldest first, at least one; it may lack the oldest
	// and those in which slots were lost. The answer depends on past only, and
	// is the caller's to round and to clamp: to the job's bounds, and to the
	// slots there are.
	Parallelism(past []Measurement) float64
}

// NewPolicy returns the policy of a name: static or throughput. Any other is an
// Invalid error that lists them.
func NewPolicy(name string) (Policy, error) {
	policies := []Policy{static{}, throughput{}}
	names := make([]string, len(policies))
	for i, p := range policies {
		if p.Name() == name {
			return p, nil
		}
		names[i] = p.Name()
	}
	return nil, fault.New("scheduler.policy", fault.Invalid, "policy %q does not exist: give one of %s", name, strings.Join(names, ", "))
}

// static leaves every job the N that it has.
type static struct{}

func (static) Name() string { return "static" }

func (static) Parallelism(past []Measurement) float64 {
	return float64(past[len(past)-1].Parallelism)
}

// The thresholds of throughput, as shares of the reference.
const (
	scaleUp   = 1.05 // up to which a function is added
	scaleDown = 1.2  // from which one is taken away
)

// throughput is the rule of KubeML's ThroughputBasedPolicy, on time per sample
// instead of per epoch: after the first epoch one function more; then one more
// while an epoch is at most 1.05 times the reference, one less from 1.2 times
// on, and else no change. The reference is the last epoch that led to a change.
// One function is the least it ever asks for.
type throughput struct{}

func (throughput) Name() string { return "throughput" }

func (throughput) Parallelism(past []Measurement) float64 {
	n, reference := 1.0, 0.0
	for i, m := range past {
		n = float64(m.Parallelism)
		switch took := m.perSample(); {
		case i == 0 || took <= scaleUp*reference:
			n, reference = n+1, took
		case took >= scaleDown*reference:
			n, reference = n-1, took
		}
	}
	return max(1, n)
}
