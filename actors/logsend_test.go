package actors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/messages"
)

var errLost = errors.New("lost")

// What functions print on another node arrives once and in order, whatever requests
// and their answers get lost or come twice, and late.
func TestLinesOfOtherNodesArriveOnce(t *testing.T) {
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 1))
			got := map[int][]string{}
			var late []*messages.LinesPrinted
			calm := false
			p := actors.NewPrinting(func(m *messages.LinesPrinted, take func(*messages.LinesPrinted)) error {
				if len(late) > 0 && draw.IntN(3) == 0 {
					take(late[draw.IntN(len(late))])
				}
				late = append(late, proto.CloneOf(m))
				switch draw.IntN(4) {
				case 0:
					if !calm {
						return errLost
					}
				case 1:
					if !calm {
						take(m)
						return errLost // the answer is
					}
				}
				take(m)
				return nil
			}, func(l python.Line) { got[l.Index] = append(got[l.Index], l.Text) })
			want := map[int][]string{}
			for i := range 300 {
				l := python.Line{JobID: "j", Index: draw.IntN(4) - 1, Text: strings.Repeat("x", draw.IntN(3000)) + fmt.Sprint(" ", i)}
				want[l.Index] = append(want[l.Index], l.Text)
				p.Add(l)
				switch draw.IntN(10) {
				case 0:
					p.Flush()
				case 1:
					p.Settle()
				}
			}
			p.Add(python.Line{Text: "of no job"})
			calm = true
			p.Flush()
			require.Equal(t, want, got)
		})
	}
}

// While the leader is away nobody is held up, and what is kept for it is bounded: of
// what has no room the log says how many lines it was.
func TestAnAbsentLeaderCostsNeitherTimeNorMemory(t *testing.T) {
	tries, back := 0, false
	var got []string
	p := actors.NewPrinting(func(m *messages.LinesPrinted, take func(*messages.LinesPrinted)) error {
		tries++
		require.LessOrEqual(t, proto.Size(m), 10<<20)
		if !back {
			return errLost
		}
		take(m)
		return nil
	}, func(l python.Line) { got = append(got, l.Text) })
	line := python.Line{JobID: "j", Text: strings.Repeat("x", 1023)}
	for range 20_000 {
		p.Add(line)
	}
	p.Settle()
	require.Equal(t, 1, tries, "the first says that nobody is there")
	back = true
	p.Flush()
	kept := len(got)
	require.Greater(t, kept, 8000)
	p.Add(line)
	p.Flush()
	require.Equal(t, fmt.Sprintf("(%d lines are left out: the node that leads did not take them)", 20_000-kept), got[kept])
	require.Len(t, got, kept+2)
}
