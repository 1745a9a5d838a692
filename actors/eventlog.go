package actors

import (
	"bytes"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

const (
	eventGap     = 500 * time.Millisecond // between two writes of a job's events
	eventSegment = 256 << 10              // bytes of an object of them
	eventsWait   = 20_000                 // of all jobs that wait for a store that is away; more are lost
)

// eventStore is where an eventLog writes; job.Catalog is one.
type eventStore interface {
	PutEvents(ctx context.Context, id string, incarnation, segment uint64, lines []byte) error
	// NextSegment returns the number of the segment behind all that are there.
	NextSegment(ctx context.Context, id string, incarnation uint64) (uint64, error)
}

// eventLog keeps the events of this node's jobs in the store, a line each, in
// segments that are replaced until they are full.
type eventLog struct {
	store eventStore
	log   *zap.Logger
	now   func() time.Time

	mu    sync.Mutex // guards queue, lost
	queue []*messages.JobEvent
	lost  int

	writing  sync.Mutex // held by flush; guards segments
	segments map[eventPlace]*segment

	poke chan struct{}
	stop chan struct{}
	done chan struct{}
}

// eventPlace is an incarnation of a job.
type eventPlace struct {
	job         string
	incarnation uint64
}

// segment is the one of an incarnation that is not full.
type segment struct {
	number  uint64
	follows bool // an unknown number of others, which whoever led before this process wrote
	lines   bytes.Buffer
	stored  int // bytes of lines that the store has
	told    actorkit.Sparse
	ended   bool
}

func newEventLog(s eventStore, log *zap.Logger, now func() time.Time) *eventLog {
	l := &eventLog{
		store: s, log: log, now: now, segments: map[eventPlace]*segment{},
		poke: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// add takes events in; it does not wait.
func (l *eventLog) add(events []*messages.JobEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(0, eventsWait-len(l.queue))
	if room < len(events) {
		l.lost += len(events) - room
		events = events[:room]
	}
	l.queue = append(l.queue, events...)
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

func (l *eventLog) run() {
	defer close(l.done)
	for {
		select {
		case <-l.stop:
			return
		case <-l.poke:
		}
		l.flush(context.Background())
		select {
		case <-l.stop:
			return
		case <-time.After(eventGap):
		}
	}
}

// flush writes what has come. What the store does not take is kept, and written
// with what comes next.
func (l *eventLog) flush(ctx context.Context) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	events, lost := l.queue, l.lost
	l.queue, l.lost = nil, 0
	l.mu.Unlock()
	if lost > 0 {
		l.log.Warn("events not stored: too many wait for the store", zap.Int("events", lost))
	}
	for _, e := range events {
		l.line(ctx, e)
	}
	failed := false
	for place, s := range l.segments {
		if err := l.put(ctx, place, s); err != nil {
			if s.told.Due(l.now()) {
				l.log.Warn("events not stored yet", zap.String("job_id", place.job), zap.Error(err))
			}
			failed = true
			continue
		}
		s.told = actorkit.Sparse{}
		if s.ended {
			delete(l.segments, place)
		}
	}
	if failed {
		select {
		case l.poke <- struct{}{}: // again, after the gap
		default:
		}
	}
}

// line adds an event to its segment; one that is full is written, and followed
// by the next.
func (l *eventLog) line(ctx context.Context, e *messages.JobEvent) {
	if e.GetWhat() == nil {
		return // stands for one that is gone
	}
	place := eventPlace{e.GetJob().GetId(), e.GetJob().GetIncarnation()}
	if e.GetTakenOver() != nil { // the job is another's
		if s := l.segments[place]; s != nil {
			s.ended = true
		}
		return
	}
	text, err := protojson.Marshal(e)
	if err != nil {
		l.log.Warn("event cannot be stored", zap.String("job_id", place.job), zap.Error(err))
		return
	}
	s := l.segments[place]
	if s == nil {
		s = &segment{follows: e.GetSeq() > 1}
		l.segments[place] = s
	}
	if s.lines.Len() > 0 && s.lines.Len()+len(text) >= eventSegment && l.put(ctx, place, s) == nil {
		*s = segment{number: s.number + 1}
	}
	s.lines.Write(text)
	s.lines.WriteByte('\n')
	s.ended = e.GetEnded() != nil
}

func (l *eventLog) put(ctx context.Context, place eventPlace, s *segment) error {
	if s.stored == s.lines.Len() {
		return nil
	}
	if s.follows {
		next, err := l.store.NextSegment(ctx, place.job, place.incarnation)
		if err != nil {
			return err
		}
		s.number, s.follows = next, false
	}
	if err := l.store.PutEvents(ctx, place.job, place.incarnation, s.number, s.lines.Bytes()); err != nil {
		return err
	}
	s.stored = s.lines.Len()
	return nil
}

// close writes what is left, as far as the store takes it.
func (l *eventLog) close() error {
	close(l.stop)
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.flush(ctx)
	l.writing.Lock()
	defer l.writing.Unlock()
	for place, s := range l.segments {
		if s.stored != s.lines.Len() {
			l.log.Warn("the last events are not stored", zap.String("job_id", place.job))
		}
	}
	return nil
}
