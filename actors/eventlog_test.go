package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// shelf is a store of events that may be away.
type shelf struct {
	mu       sync.Mutex
	away     bool
	segments map[string][]byte
	tried    chan struct{}
}

func (s *shelf) PutEvents(_ context.Context, id string, incarnation, segment uint64, lines []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.tried <- struct{}{}:
	default:
	}
	if s.away {
		return fault.New("test", fault.Unavailable, "%w", errors.New("unplugged"))
	}
	s.segments[fmt.Sprintf("%s/%d/%d", id, incarnation, segment)] = bytes.Clone(lines)
	return nil
}

func (s *shelf) NextSegment(_ context.Context, id string, incarnation uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return 0, fault.New("test", fault.Unavailable, "%w", errors.New("unplugged"))
	}
	next := uint64(0)
	for s.segments[fmt.Sprintf("%s/%d/%d", id, incarnation, next)] != nil {
		next++
	}
	return next, nil
}

func eventOf(id string, seq uint64, text string) *messages.JobEvent {
	return &messages.JobEvent{
		Job: &messages.JobRef{Id: id, Incarnation: 1}, Seq: seq,
		What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: text}},
	}
}

// Events get to the store in order, in segments that are whole lines, and those
// that came while it was away come when it is back.
func TestEventsAreKept(t *testing.T) {
	s := &shelf{away: true, segments: map[string][]byte{}, tried: make(chan struct{})}
	l := newEventLog(s, zap.NewNop(), func() time.Time { return time.Unix(0, 0) })
	long := string(bytes.Repeat([]byte("x"), 100<<10))
	for i := range uint64(7) {
		l.add([]*messages.JobEvent{eventOf("j", i+1, long)})
	}
	<-s.tried
	s.mu.Lock()
	s.away = false
	s.mu.Unlock()
	l.add([]*messages.JobEvent{eventOf("k", 1, "short")})
	require.NoError(t, l.close())
	require.Contains(t, string(s.segments["k/1/0"]), `"short"`)
	var all []byte
	for n := 0; ; n++ {
		segment, ok := s.segments[fmt.Sprintf("j/1/%d", n)]
		if !ok {
			break
		}
		require.True(t, bytes.HasSuffix(segment, []byte("\n")))
		all = append(all, segment...)
	}
	lines := bytes.Split(bytes.TrimSpace(all), []byte("\n"))
	require.Len(t, lines, 7)
	for i, line := range lines {
		require.Regexp(t, fmt.Sprintf(`"seq": ?"%d"`, i+1), string(line))
	}
}

// What lasts is said at once and then once a minute, and anew once it was over.
func TestTheLogSaysWhatLastsOnceAMinute(t *testing.T) {
	said, now := 0, time.Unix(0, 0)
	s := &shelf{away: true, segments: map[string][]byte{}}
	lines := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.WarnLevel)
	log := zap.New(lines, zap.Hooks(func(zapcore.Entry) error { said++; return nil }))
	l := &eventLog{store: s, log: log, now: func() time.Time { return now }, segments: map[eventPlace]*segment{}, poke: make(chan struct{}, 1)}
	l.add([]*messages.JobEvent{eventOf("j", 1, "")})
	for range 120 {
		l.flush(t.Context())
		now = now.Add(time.Second)
	}
	require.Equal(t, 2, said)
	s.away = false
	l.flush(t.Context())
	s.away = true
	l.add([]*messages.JobEvent{eventOf("j", 2, "")})
	l.flush(t.Context())
	require.Equal(t, 3, said)
}

// A store that stays away costs a bounded amount of memory.
func TestTooManyEventsAreLost(t *testing.T) {
	l := &eventLog{store: &shelf{}, log: zap.NewNop(), segments: map[eventPlace]*segment{}, poke: make(chan struct{}, 1)}
	for i := range uint64(eventsWait + 10) {
		l.add([]*messages.JobEvent{eventOf("j", i+1, "")})
	}
	require.Len(t, l.queue, eventsWait)
	require.Equal(t, 10, l.lost)
	require.Less(t, eventGap, time.Second)
}
