package jobprocess_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
	"github.com/troupe-ml/troupe/messages"
)

// heard is what a Watch was told.
type heard struct {
	mu     sync.Mutex
	events []*messages.JobEvent
	exited chan string
}

func newHeard() *heard { return &heard{exited: make(chan string, 1)} }

func (h *heard) watch() jobprocess.Watch {
	return jobprocess.Watch{
		Events: func(events []*messages.JobEvent) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, events...)
		},
		Exited: func(how string) { h.exited <- how },
	}
}

// places are those of the events that came.
func (h *heard) places() (places []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		places = append(places, fmt.Sprintf("%d:%d", e.GetJob().GetIncarnation(), e.GetSeq()))
	}
	return places
}

func shell(script string) jobprocess.Command {
	return program("/bin/sh", "-c", script)
}

func program(words ...string) jobprocess.Command {
	return func(context.Context, string) ([]string, error) { return words, nil }
}

func launcher(t *testing.T, command jobprocess.Command, swept func()) *jobprocess.Launcher {
	l := jobprocess.NewLauncher(zap.NewNop(), command, swept)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

var job = &messages.JobRef{Id: "j", Incarnation: 3}

// A program that is not there, or no program, is not worth another try; one that
// ends at once may be, and its last words say why it did.
func TestAProgramThatCannotBeStartedIsTold(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o755))
	for _, test := range []struct {
		name    string
		command jobprocess.Command
		kind    fault.Kind
		want    string
	}{
		{"not there", program(none), fault.Invalid, "no such file or directory"},
		{"no program", program(text), fault.Invalid, "exec format error"},
		{"ends", shell("echo no store; exit 3"), fault.Unavailable, "the job's process ended with exit status 3 before it listened: no store"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := launcher(t, test.command, func() {}).Launch(t.Context(), job, newHeard().watch())
			require.Equal(t, test.kind, fault.KindOf(err))
			require.ErrorContains(t, err, test.want)
		})
	}
}

// A process lives no longer than the context of its launch, or its launcher; what
// it left is swept, and how it ended told, once.
func TestAProcessDiesWithWhoStartedIt(t *testing.T) {
	swept := make(chan bool, 10)
	begin := func(ctx context.Context, l *jobprocess.Launcher) *heard {
		h := newHeard()
		_, err := l.Launch(ctx, job, h.watch())
		require.NoError(t, err)
		return h
	}
	l := jobprocess.NewLauncher(zap.NewNop(), shell("echo http://127.0.0.1:1; sleep 1000"), func() { swept <- true })
	ctx, cancel := context.WithCancel(t.Context())
	h := begin(ctx, l)
	cancel()
	require.Contains(t, <-h.exited, "was killed by signal 9")
	<-swept

	h = begin(t.Context(), l)
	l.End("other")
	require.Empty(t, h.exited)
	l.End("j")
	require.Contains(t, <-h.exited, "was killed by signal 9")

	h = begin(t.Context(), l)
	require.NoError(t, l.Close())
	require.Contains(t, <-h.exited, "was killed by signal 9")
	_, err := l.Launch(t.Context(), job, h.watch())
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NoError(t, l.Close())
}

// scene is the HTTP interface of a job, played; its process only says where it is.
type scene struct {
	*httptest.Server
	mu       sync.Mutex
	asked    []string
	refusal  error
	cursors  []string
	segments [][]*messages.JobEvent // what each stream of events gives before it breaks; the last ends
}

func newScene(t *testing.T) *scene {
	s := &scene{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scene) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/events" {
		s.cursors = append(s.cursors, r.Header.Get("Last-Event-ID"))
		out := sse.NewWriter(w, http.NewResponseController(w).Flush)
		for _, e := range s.segments[0] {
			_ = jobjson.SendEvent(out, fmt.Sprintf("j:%d:%d", e.GetJob().GetIncarnation(), e.GetSeq()), e)
		}
		if s.segments = s.segments[1:]; len(s.segments) == 0 {
			_ = jobjson.SendEnd(out)
		}
		return
	}
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL, body)))
	if s.refusal == nil {
		fmt.Fprint(w, `{"busy":2,"later":"more"}`)
	} else {
		w.Header().Set(httpfault.Header, fault.KindOf(s.refusal).String())
		w.WriteHeader(httpfault.Status(fault.KindOf(s.refusal)))
		fmt.Fprintf(w, `{"error":%q,"code":1}`, s.refusal)
	}
}

func started(incarnation, seq uint64) *messages.JobEvent {
	return &messages.JobEvent{
		Job: &messages.JobRef{Id: "j", Incarnation: incarnation}, Seq: seq,
		What: &messages.JobEvent_Started{Started: &messages.JobStarted{}},
	}
}

// What a process is told goes over its HTTP interface, its answer is the error
// that it was there, and what happens is followed over a stream that breaks.
func TestAProcessIsDrivenOverHTTP(t *testing.T) {
	s := newScene(t)
	s.segments = [][]*messages.JobEvent{{started(3, 1), started(3, 2)}, nil, {started(3, 3), started(4, 1)}}
	h := newHeard()
	p, err := launcher(t, shell("echo starting; echo "+s.URL+"; sleep 1000"), func() {}).Launch(t.Context(), job, h.watch())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), &messages.TrainTask{FunctionName: "f", Dataset: "d"}, jobprocess.Size{Slots: 1, Parallelism: 2}))
	require.Eventually(t, func() bool { return len(h.places()) == 4 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"3:1", "3:2", "3:3", "4:1"}, h.places())
	require.Equal(t, []string{"j:2:18446744073709551615", "j:3:2", "j:3:2"}, s.cursors)
	require.NoError(t, p.Resize(t.Context(), jobprocess.Size{Slots: 3, Parallelism: 4}))
	require.NoError(t, p.Resize(t.Context(), jobprocess.Size{Slots: 2}))
	require.NoError(t, p.Stop(t.Context(), "enough & more"))
	busy, err := p.Check(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, busy)
	require.Contains(t, s.asked[0], `"job":{"id":"j","state":{"parallelism":2,"slots":1}}`)
	require.Equal(t, []string{
		`POST /update {"parallelism":4,"slots":3}`, `POST /update {"slots":2}`, "DELETE /stop?reason=enough+%26+more", "GET /health",
	}, s.asked[1:])

	s.mu.Lock()
	s.refusal = fault.New("scene", fault.Conflict, "it runs elsewhere")
	s.mu.Unlock()
	err = p.Start(t.Context(), &messages.TrainTask{}, jobprocess.Size{})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "it runs elsewhere")

	p.Kill()
	require.Contains(t, <-h.exited, "was killed by signal 9")
	s.Close()
	err = p.Start(t.Context(), &messages.TrainTask{}, jobprocess.Size{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "its process was killed by signal 9")
}
