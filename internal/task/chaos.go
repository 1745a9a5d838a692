package task

import (
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	chaosForm = "give shares such as kill=0.1,hang=0.02,nan=0.02,slow=0.1,freeze=0.02,corrupt=0.02,disk-full=0.02,crash-job=0.05, " +
		"and store-down=10s, seed=7"
	maxStoreDown = 24 * time.Hour
)

// ChaosShare is a share in what --chaos is given, by its name there.
type ChaosShare struct {
	Name  string
	Value *float64 // in the plan
}

// ChaosShares are the shares of a plan, which must not be nil. All but the last
// are shares of the attempts; that is one of the rounds.
func ChaosShares(plan *messages.ChaosPlan) []ChaosShare {
	return []ChaosShare{
		{"kill", &plan.Kill},
		{"hang", &plan.Hang},
		{"nan", &plan.Nan},
		{"slow", &plan.Slow},
		{"freeze", &plan.Freeze},
		{"corrupt", &plan.Corrupt},
		{"disk-full", &plan.DiskFull},
		{"crash-job", &plan.CrashJob},
	}
}

// ParseChaos reads what --chaos is given: comma-separated name=value, each name
// at most once. The shares kill, hang, nan, slow, freeze, corrupt, disk-full and
// crash-job are in [0, 1], each drawn for itself; store-down is a duration, seed
// an unsigned integer. "none" gives nil. Anything else is an Invalid error that
// names the part at fault.
func ParseChaos(text string) (*messages.ChaosPlan, error) {
	if strings.TrimSpace(text) == "none" {
		return nil, nil
	}
	plan := &messages.ChaosPlan{}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, invalid("chaos %q: %q is not name=value: %s", text, part, chaosForm)
		}
		if seen[name] {
			return nil, invalid("chaos %q: %s is given twice: give it once", text, name)
		}
		seen[name] = true
		known, err := setChaos(plan, name, value)
		switch {
		case !known:
			return nil, invalid("chaos %q: there is no %q: %s", text, name, chaosForm)
		case err != nil:
			return nil, invalid("chaos %q: %s is no %s that it could be: %s", text, part, kindOfChaos(name), chaosForm)
		}
	}
	if err := checkChaos(plan); err != nil {
		return nil, err
	}
	return plan, nil
}

// setChaos sets one part of a plan, and reports whether there is such a part.
func setChaos(plan *messages.ChaosPlan, name, value string) (known bool, err error) {
	switch name {
	case "seed":
		plan.Seed, err = strconv.ParseUint(value, 10, 64)
		return true, err
	case "store-down":
		d, err := time.ParseDuration(value)
		if err == nil && d > 0 && d < time.Millisecond {
			d = time.Millisecond
		}
		if d < 0 { // a plan has no place for it
			return true, strconv.ErrRange
		}
		plan.StoreDownMs = uint64(d.Milliseconds())
		return true, err
	}
	for _, share := range ChaosShares(plan) {
		if share.Name == name {
			*share.Value, err = strconv.ParseFloat(value, 64)
			return true, err
		}
	}
	return false, nil
}

func kindOfChaos(name string) string {
	if name == "store-down" {
		return "duration"
	}
	return "number"
}

// checkChaos returns an error unless each share is one. They need not add up to
// anything: each is drawn for itself, and of several ways to break one attempt
// the first of kill, hang, nan, freeze, corrupt, disk-full is taken.
func checkChaos(plan *messages.ChaosPlan) error {
	if plan == nil {
		return nil
	}
	for _, s := range ChaosShares(plan) {
		if share := *s.Value; !(share >= 0 && share <= 1) { // NaN too
			return invalid("chaos %s=%v: give a share in [0, 1]", s.Name, share)
		}
	}
	if down := plan.GetStoreDownMs(); down > uint64(maxStoreDown/time.Millisecond) {
		return invalid("chaos store-down of %d ms: give at most %v", down, maxStoreDown)
	}
	return nil
}
