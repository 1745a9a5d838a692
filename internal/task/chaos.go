package task

import (
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/messages"
)

const chaosForm = "give shares such as kill=0.1,hang=0.02,nan=0.02,slow=0.1,seed=7"

// ParseChaos reads what --chaos is given: comma-separated name=value with the
// names kill, hang, nan and slow (shares of the attempts, in [0, 1], together
// at most 1) and seed (an unsigned integer), each at most once. "none" gives
// nil. Anything else is an Invalid error that names the part at fault.
func ParseChaos(text string) (*messages.ChaosPlan, error) {
	if strings.TrimSpace(text) == "none" {
		return nil, nil
	}
	plan := &messages.ChaosPlan{}
	shares := map[string]*float64{"kill": &plan.Kill, "hang": &plan.Hang, "nan": &plan.Nan, "slow": &plan.Slow}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		share := shares[name]
		switch {
		case !ok:
			return nil, invalid("chaos %q: %q is not name=value: %s", text, part, chaosForm)
		case share == nil && name != "seed":
			return nil, invalid("chaos %q: there is no %q: %s", text, name, chaosForm)
		case seen[name]:
			return nil, invalid("chaos %q: %s is given twice: give it once", text, name)
		}
		seen[name] = true
		var err error
		if share != nil {
			*share, err = strconv.ParseFloat(value, 64)
		} else {
			plan.Seed, err = strconv.ParseUint(value, 10, 64)
		}
		if err != nil {
			return nil, invalid("chaos %q: %s is no number that it could be: %s", text, part, chaosForm)
		}
	}
	if err := checkChaos(plan); err != nil {
		return nil, err
	}
	return plan, nil
}

// checkChaos returns an error unless an attempt can be broken in at most one
// way, each with its share.
func checkChaos(plan *messages.ChaosPlan) error {
	sum := 0.0
	for _, s := range []struct {
		name  string
		share float64
	}{{"kill", plan.GetKill()}, {"hang", plan.GetHang()}, {"nan", plan.GetNan()}, {"slow", plan.GetSlow()}} {
		if !(s.share >= 0 && s.share <= 1) { // NaN too
			return invalid("chaos %s=%v: give a share in [0, 1]", s.name, s.share)
		}
		sum += s.share
	}
	if sum > 1+1e-9 { // shares such as 0.7+0.2+0.1 add up to a little more
		return invalid("chaos: the shares add up to %v: an attempt breaks in one way, so give at most 1 in all", sum)
	}
	return nil
}
