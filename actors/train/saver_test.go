package train_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
)

// after returns the moment so long after a saver's first save began.
func after(d time.Duration) time.Time { return testkit.Epoch.Add(d) }

// saverWith returns a saver whose first save, of the first epoch's first merge,
// took some time.
func saverWith(every, took time.Duration) *train.Saver {
	s := train.NewSaver(every)
	s.Begin(after(0), train.Mark(0, 1))
	s.End(after(took), nil)
	return s
}

// A save is due when those before left 19 parts in 20 of the time to others, at
// least every 30 s, and when an epoch is complete; or as often as asked for.
func TestWhenASaveIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		every, took, at time.Duration
		epochs          int
		want            bool
	}{
		"nothing took any time":                {0, 0, 0, 0, true},
		"within 20 times what it took":         {0, time.Second, 19_999 * time.Millisecond, 0, false},
		"after 20 times what it took":          {0, time.Second, 20 * time.Second, 0, true},
		"it took long, within 30 s":            {0, 10 * time.Second, 29_999 * time.Millisecond, 0, false},
		"it took long, after 30 s":             {0, 10 * time.Second, 30 * time.Second, 0, true},
		"an epoch is complete":                 {0, 10 * time.Second, 11 * time.Second, 1, true},
		"within what was asked for":            {time.Minute, 0, 59_999 * time.Millisecond, 0, false},
		"after what was asked for":             {time.Minute, 0, time.Minute, 0, true},
		"less was asked for than it takes":     {time.Second, 5 * time.Second, 5 * time.Second, 0, true},
		"an epoch is complete, asked for less": {time.Hour, 0, time.Second, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, saverWith(c.every, c.took).Due(after(c.at), train.Mark(c.epochs, 2)))
		})
	}
	s := train.NewSaver(time.Hour)
	require.False(t, s.Due(after(0), nil), "there is nothing yet")
	require.True(t, s.Due(after(0), train.Mark(0, 0)), "the first is always due")
	s.Begin(after(0), train.Mark(0, 0))
	require.False(t, s.Due(after(2*time.Hour), train.Mark(0, 1)), "one at a time")
	s = train.NewSaver(0)
	same := train.Mark(0, 1)
	s.Begin(after(0), same)
	s.End(after(0), nil)
	require.False(t, s.Due(after(time.Hour), same), "it is stored")
}

// A save that fails is tried again, with whatever is newest, after 1, 2, 4, 8 and
// then every 15 s; one warning a minute says so, and none once it is back.
func TestASaveThatFailsIsDueAgain(t *testing.T) {
	s := saverWith(time.Hour, 0)
	now, version := after(0), uint64(1)
	for _, wait := range []time.Duration{1, 2, 4, 8, 15, 15, 15} {
		version++
		s.Begin(now, train.Mark(1, version))
		s.End(now, errors.New("the disk is full"))
		require.False(t, s.Due(now.Add(wait*time.Second-1), train.Mark(1, version+1)))
		now = now.Add(wait * time.Second)
		require.True(t, s.Due(now, train.Mark(1, version+1)))
	}
	var said []time.Duration
	for at := time.Duration(0); at < 5*time.Minute; at += time.Second {
		if text := s.Complaint(after(at)); text != "" {
			require.Contains(t, text, "the store does not take the job's state: the disk is full; training goes on")
			require.Contains(t, text, "would resume after epoch 1, round 1")
			said = append(said, at)
		}
	}
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, said)
	s.Begin(now, train.Mark(1, 9))
	s.End(now, nil)
	require.Empty(t, s.Complaint(after(10*time.Minute)))
	s.Begin(now, train.Mark(1, 10))
	s.End(now, errors.New("again"))
	require.NotEmpty(t, s.Complaint(now), "a new trouble is said at once")
}

// One that neither ends nor fails is said, too.
func TestASaveThatTakesLongIsSaid(t *testing.T) {
	s := train.NewSaver(0)
	s.Begin(after(0), train.Mark(0, 1))
	require.Empty(t, s.Complaint(after(59*time.Second)))
	require.Equal(t, "the store has been taking the job's state for 1m0s; training goes on, and would resume from the beginning", s.Complaint(after(time.Minute)))
	require.Empty(t, s.Complaint(after(119*time.Second)))
	require.True(t, strings.HasPrefix(s.Complaint(after(2*time.Minute)), "the store has been taking the job's state for 2m0s"))
}
