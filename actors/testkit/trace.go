package testkit

import (
	"fmt"
	"math/bits"
	"reflect"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cespare/xxhash/v2"
)

// kept is how many of the last records a trace keeps.
const kept = 200

// What else happened at a record.
const (
	dropped    = "dropped"
	panicked   = "panicked"
	deadLetter = "dead letter"
)

// trace remembers what happened: all of it as a hash, the end of it in full.
type trace struct {
	hash  uint64
	count uint64
	last  [kept]record // the record with number n, from 0, at n % kept
}

type record struct {
	at       time.Duration
	from, to string
	name     string
	msg      any
	note     string
}

// Trace returns the last 200 deliveries and losses, oldest first. It says who
// sent what type of message to whom, and when.
func (s *Sim) Trace() []string {
	var lines []string
	s.trace.each(func(r *record) { lines = append(lines, r.String()) })
	return lines
}

// Hash returns a number over everything that has happened: equal for runs of
// the same seed, different for runs that differ in any sender, receiver, type,
// time or order.
func (s *Sim) Hash() uint64 { return s.trace.hash }

// record adds to the trace and returns the number of the record, from 1.
func (s *Sim) record(from, to string, msg any) uint64 {
	name := s.name(actor.UnwrapEnvelopeMessage(msg))
	t := &s.trace
	t.last[t.count%kept] = record{at: s.elapsed, from: from, to: to, name: name.text, msg: msg}
	t.count++
	t.mix(name.hash)
	t.mix(xxhash.Sum64String(from))
	t.mix(xxhash.Sum64String(to))
	t.mix(uint64(s.elapsed))
	return t.count
}

func (t *trace) mix(x uint64) {
	t.hash = bits.RotateLeft64(t.hash^x*0x9e3779b97f4a7c15, 31) * 0xc2b2ae3d27d4eb4f
}

// note adds to a record, if it is still kept: the n-th, from 1.
func (t *trace) note(n uint64, note string) {
	if t.count-n < kept {
		t.last[(n-1)%kept].note = note
	}
	t.mix(xxhash.Sum64String(note))
}

func (t *trace) each(do func(*record)) {
	for n := t.count - min(t.count, kept); n < t.count; n++ {
		do(&t.last[n%kept])
	}
}

// report returns the lines with the messages' content.
func (t *trace) report() string {
	var b strings.Builder
	t.each(func(r *record) {
		content := fmt.Sprintf("%v", actor.UnwrapEnvelopeMessage(r.msg))
		if len(content) > 160 {
			content = content[:160] + "..."
		}
		fmt.Fprintf(&b, "  %s  %s\n", r, content)
	})
	return b.String()
}

// String returns the record as a line, without the message's content.
func (r *record) String() string {
	line := fmt.Sprintf("%v %s -> %s %s", r.at, r.from, r.to, r.name)
	if r.note != "" {
		line += " (" + r.note + ")"
	}
	return line
}

// named is the name of a message type.
type named struct {
	text string
	hash uint64
}

// name returns the name of a message's type as in its declaration, without
// pointer and package.
func (s *Sim) name(msg any) *named {
	of := reflect.TypeOf(msg)
	if n := s.names[of]; n != nil {
		return n
	}
	text := "nil"
	if of != nil {
		if text = of.String(); of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Name() != "" {
			text = of.Name()
		}
	}
	n := &named{text: text, hash: xxhash.Sum64String(text)}
	s.names[reflect.TypeOf(msg)] = n
	return n
}
