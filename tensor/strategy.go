package tensor

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Kind is how a merge treats the floats of its answers.
type Kind uint8

// The kinds of merges.
const (
	Mean        Kind = iota // weighted mean
	Nesterov                // the mean, and a step of an outer optimizer from the reference
	TrimmedMean             // mean without the lowest and the highest
	Median
)

// Strategy is how the answers of a round become one model. The zero value is
// the mean weighted by samples.
type Strategy struct {
	Kind       Kind
	Unweighted bool    // Mean: every answer counts the same
	LR         float64 // Nesterov: of the outer optimizer, in (0, MaxOuterLR]
	Momentum   float64 // Nesterov: in [0, 1)
	Share      float64 // TrimmedMean: of the answers, cut off at each end, in [0, 0.5)
}

// The numbers that a strategy has where none are given. Those of nesterov are
// DiLoCo's (Douillard et al., 2023); a fifth at each end is what the mean of
// five functions survives when one of them answers garbage.
const (
	DefaultOuterLR  = 0.7
	DefaultMomentum = 0.9
	DefaultShare    = 0.2
	MaxOuterLR      = 10
)

// Strategies lists the forms that ParseStrategy reads.
func Strategies() []string {
	return []string{"average", "average:unweighted", "nesterov[:lr,momentum]", "trimmed-mean[:share]", "median"}
}

// ParseStrategy reads one of Strategies: average, average:unweighted, nesterov,
// nesterov:LR, nesterov:LR,MOMENTUM, trimmed-mean, trimmed-mean:SHARE, median.
// Anything else is an Invalid error that names the value and what is allowed.
func ParseStrategy(text string) (Strategy, error) {
	name, arguments, given := strings.Cut(text, ":")
	var parts []string
	if given {
		parts = strings.Split(arguments, ",")
	}
	switch name {
	case "average":
		if !given || arguments == "unweighted" {
			return Strategy{Unweighted: given}, nil
		}
	case "nesterov":
		s := Strategy{Kind: Nesterov, LR: DefaultOuterLR, Momentum: DefaultMomentum}
		if err := numbers(text, parts, &s.LR, &s.Momentum); err != nil {
			return Strategy{}, err
		}
		return s, s.check(text)
	case "trimmed-mean":
		s := Strategy{Kind: TrimmedMean, Share: DefaultShare}
		if err := numbers(text, parts, &s.Share); err != nil {
			return Strategy{}, err
		}
		return s, s.check(text)
	case "median":
		if !given {
			return Strategy{Kind: Median}, nil
		}
	}
	return Strategy{}, badStrategy("merge %q does not exist: give one of %s", text, strings.Join(Strategies(), ", "))
}

// numbers reads parts, of which there may be fewer than fields.
func numbers(text string, parts []string, fields ...*float64) error {
	if len(parts) > len(fields) {
		return badStrategy("merge %q: %d numbers are too many: give at most %d", text, len(parts), len(fields))
	}
	for i, part := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return badStrategy("merge %q: %q is no number: give one, such as %v", text, part, *fields[i])
		}
		*fields[i] = x
	}
	return nil
}

func (s Strategy) check(text string) error {
	switch {
	case s.Kind == Nesterov && !(s.LR > 0 && s.LR <= MaxOuterLR):
		return badStrategy("merge %q: outer learning rate %v: give a number above 0, at most %v", text, s.LR, float64(MaxOuterLR))
	case s.Kind == Nesterov && !(s.Momentum >= 0 && s.Momentum < 1):
		return badStrategy("merge %q: momentum %v: give a number in [0, 1)", text, s.Momentum)
	case s.Kind == TrimmedMean && !(s.Share >= 0 && s.Share < 0.5):
		return badStrategy("merge %q: share %v: give what part of the answers is cut off at each end, in [0, 0.5)", text, s.Share)
	}
	return nil
}

func badStrategy(format string, args ...any) error {
	return fault.New("tensor.strategy", fault.Invalid, format, args...)
}

// trimmed returns how many of n answers are cut off at each end: the share,
// rounded up so that a share above 0 cuts something wherever three or more
// answers leave something, and at most what leaves one or two of them.
func (s Strategy) trimmed(n int) int {
	const rounding = 1e-9 // 0.07 * 100 is a little more than 7
	return min(int(math.Ceil(s.Share*float64(n)-rounding)), (n-1)/2)
}

// middle reduces the values of one element in all answers, which it orders, to
// one. Answers whose values are not finite end up at the ends of the order.
func (s Strategy) middle(column []float64) float64 {
	slices.Sort(column)
	n := len(column)
	if s.Kind == Median {
		return 0.5*column[(n-1)/2] + 0.5*column[n/2] // no overflow
	}
	cut := s.trimmed(n)
	kept := column[cut : n-cut]
	scale := math.Ldexp(1, -bits.Len(uint(len(kept)))) // below 1/len: exact, and no sum overflows
	sum := kept[0] * scale                             // not 0, which would lose the sign of -0
	for _, x := range kept[1:] {
		sum += float64(x * scale)
	}
	return sum / (scale * float64(len(kept)))
}
