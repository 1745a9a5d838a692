package cluster

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	LeaseTerm = leaseTerm
	Silence   = silence
	MaxFrame  = maxFrame
)

// Frame and ReadFrame are those of links, with kinds as numbers.
func Frame(k uint8, body []byte) []byte { return frame(kind(k), body) }

func ReadFrame(r io.Reader) (uint8, []byte, error) {
	k, body, err := readFrame(r, nil)
	return uint8(k), body, err
}

// Table is the table of members, for tests.
type Table struct{ *table }

func NewTable(self string, leads bool) Table { return Table{newTable(self, leads)} }

// Update tells the table of nodes, each "node/boot", all announced. A boot ends in
// the number of its life.
func (t Table) Update(now time.Time, nodes ...[2]string) (gone []Member, changed bool) {
	var views []view
	for _, n := range nodes {
		life, err := strconv.ParseUint(strings.TrimLeft(n[1], "abcdefghijklmnopqrstuvwxyz"), 10, 64)
		if err != nil {
			panic(err)
		}
		views = append(views, view{n[0], n[0] + ":1", &messages.NodeFacts{Boot: n[1], Life: life, Protocol: Protocol, Announced: true, Leader: n[0] == "head"}})
	}
	return t.update(views, now)
}

func (t Table) Heard(node, boot string, now time.Time) { t.heard(node, boot, now) }
func (t Table) Ask()                                   { t.ask() }
func (t Table) Left(node, boot string, now time.Time)  { t.left(node, boot, now) }
func (t Table) Told(boots []string, now time.Time)     { t.told(boots, now) }
func (t Table) News() []News                           { return t.fresh }
func (t Table) Evictions() []string                    { return t.evictions() }
func (t Table) IsOver(boot string) bool                { return t.isOver(boot) }
func (t Table) List() []Member                         { return t.list() }

// Lease is the lease of a node, for tests.
type Lease struct{ *lease }

func NewLease() Lease { return Lease{newLease()} }

func (l Lease) Know(node string, now time.Time)    { l.know(node, now) }
func (l Lease) Reached(node string, now time.Time) { l.reached(node, now) }
func (l Lease) Refused(node string)                { l.refused(node) }
func (l Lease) Left(node string)                   { l.left(node) }
func (l Lease) Paused(d time.Duration)             { l.paused(d) }
func (l Lease) Over(now time.Time) bool            { return l.over(now) }
