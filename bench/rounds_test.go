package bench_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/plane"
)

// alternations is into how many turns of ours and turns of the bare library the
// rounds of a measurement are cut.
const alternations = 8

// BenchmarkRounds says how many rounds of functions that do nothing a company
// merges in a second, and the bare actor library of as many children and
// messages.
func BenchmarkRounds(b *testing.B) {
	for _, kind := range spaceKinds() {
		for _, n := range []int{1, 2, 64, 1000} {
			for _, slots := range slices.Compact([]int{min(n, config.Cores()), n}) {
				b.Run(fmt.Sprintf("plane=%s/N=%d/slots=%d", kind.name, n, slots), func(b *testing.B) {
					messages := countMessages(b, n, slots, kind.open(b))
					space := kind.open(b)
					benchmarkRounds(b, newCompany(b, slots, space, nil, false), newBare(b), n, messages)
					reportPlainFiles(b, space)
				})
			}
		}
	}
}

// spaceKind is a kind of space that models lie in.
type spaceKind struct {
	name string
	open func(*testing.B) plane.Space
}

func spaceKinds() []spaceKind {
	memory := func(*testing.B) plane.Space { return plane.NewMemory(node) }
	scratch := func(b *testing.B) plane.Space {
		space, err := plane.OpenScratch(config.DefaultScratch(), node, nil)
		require.NoError(b, err)
		return space
	}
	return []spaceKind{{"memory", memory}, {"scratch", scratch}}
}

// countMessages counts the messages that a function costs, those of the round
// shared out among its functions.
func countMessages(b *testing.B, n, slots int, space plane.Space) float64 {
	b.Helper()
	c := newCompany(b, slots, space, nil, true)
	rounds := 1 + 1000/n
	e := c.start(b, n, rounds)
	began, ended := <-e.began, <-e.ended
	return float64(ended.heard-began.heard) / float64(n*rounds)
}

// benchmarkRounds has ours and the bare library take turns at b.N rounds each.
// The benchmark's operation is a round of ours.
func benchmarkRounds(b *testing.B, ours *company, bare *bare, n int, messages float64) {
	b.Helper()
	var mine, theirs, ratios []float64 // of each turn: seconds of a round, and theirs by mine
	b.ResetTimer()
	b.StopTimer()
	for left, turn := b.N, (b.N+alternations-1)/alternations; left > 0; left -= turn {
		turn = min(turn, left)
		e := ours.start(b, n, turn)
		began := <-e.began
		b.StartTimer()
		ended := <-e.ended
		b.StopTimer()
		took, bareTook := ended.at.Sub(began.at), bare.run(n, turn, int(math.Round(messages)))
		mine = append(mine, took.Seconds()/float64(turn))
		theirs = append(theirs, bareTook.Seconds()/float64(turn))
		ratios = append(ratios, bareTook.Seconds()/took.Seconds())
	}
	b.ReportMetric(1/median(mine), "rounds/s")
	b.ReportMetric(1/median(theirs), "bare-rounds/s")
	b.ReportMetric(median(ratios), "of-bare")
	b.ReportMetric(median(mine)/float64(n)*1e6, "µs/function")
	b.ReportMetric(messages, "messages/function")
}

// reportPlainFiles says what a file of a plane of files costs without us: to be
// written, renamed, read and removed.
func reportPlainFiles(b *testing.B, space plane.Space) {
	b.Helper()
	scratch, ok := space.(*plane.Scratch)
	if !ok {
		return
	}
	draft, sealed := filepath.Join(scratch.Folder(), "draft"), filepath.Join(scratch.Folder(), "sealed")
	data := make([]byte, 100)
	var took []float64
	for range 1000 {
		took = append(took, seconds(func() {
			require.NoError(b, os.WriteFile(draft, data, 0o600))
			require.NoError(b, os.Rename(draft, sealed))
			_, err := os.ReadFile(sealed)
			require.NoError(b, err)
			require.NoError(b, os.Remove(sealed))
		}))
	}
	b.ReportMetric(median(took)*1e6, "µs/plain-file")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
