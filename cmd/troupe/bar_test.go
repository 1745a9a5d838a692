package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

func TestMeter(t *testing.T) {
	start := time.Unix(1000, 0)
	m := &meter{epochs: 4, phase: "starting"}
	for _, step := range []struct {
		after time.Duration
		event *messages.JobEvent
		want  string
	}{
		{0, &messages.JobEvent{What: &messages.JobEvent_Queued{}}, "queued"},
		{0, &messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{TrainSamples: 100, Parallelism: 2}}}, "starting"},
		{0, &messages.JobEvent{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: 1, Parallelism: 2}}}, "epoch 1/4 N=2"},
		{time.Second, merged(1, 1, 50), "epoch 1/4 round 1 N=2 loss 0.500 50 samples/s ETA 7s"},
		{2 * time.Second, merged(1, 2, 100), "epoch 1/4 round 2 N=2 loss 0.500 50 samples/s ETA 6s"},
		{
			2 * time.Second,
			&messages.JobEvent{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: &messages.EpochRecord{Accuracy: proto.Float64(90)}}}},
			"epoch 1/4 round 2 N=2 loss 0.500 acc 90.0% 50 samples/s ETA 6s",
		},
		{4 * time.Second, merged(4, 2, 100), "epoch 4/4 round 2 N=2 loss 0.500 acc 90.0% 100 samples/s"},
	} {
		now := start.Add(step.after)
		m.add(step.event, now)
		require.Equal(t, step.want, m.line(now))
	}
}

// A job that was taken over begins in a later epoch: what others did before
// does not count as this one's speed.
func TestMeterOfAJobThatGoesOn(t *testing.T) {
	start := time.Unix(1000, 0)
	m := &meter{epochs: 4, samples: 100}
	m.add(&messages.JobEvent{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: 3}}}, start)
	m.add(merged(3, 1, 10), start.Add(time.Second))
	require.InDelta(t, 10, m.rate(start.Add(time.Second)), 1e-9)
}

func merged(epoch, round uint32, samples uint64) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{
		Epoch: epoch, Round: round, Parallelism: 2, EpochSamples: samples, Loss: 0.5,
	}}}
}

func TestTerminalGetsALiveBar(t *testing.T) {
	w, c := newWorld(t), succeeded()
	w.IsTerminal = func(f io.Writer) bool { return f == w.Err }
	r := w.run(c, "run", "mlp", "-d", "digits", "-e", "2")
	require.Zero(t, r.code)
	require.Contains(t, r.err, "epoch 1/2 round 1 N=2 loss 0.900 acc")
	require.Contains(t, r.err, "troupe: warning: the sky is low\n")
	require.NotContains(t, r.err, "val-loss", "no line an epoch beside the bar")
	require.Contains(t, r.out, "SUCCEEDED")
}

func TestBarOfAJobThatFailed(t *testing.T) {
	w, c := newWorld(t), succeeded()
	c.result = &messages.JobResult{Phase: messages.Phase_PHASE_FAILED}
	w.IsTerminal = func(io.Writer) bool { return true }
	require.Equal(t, 7, w.run(c, "run", "mlp", "-d", "digits").code)
}

func TestPlainLinesWhereABarWouldBeInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		term string
		args []string
	}{
		"logs pass by":         {"xterm", []string{"-v"}},
		"the terminal is dumb": {"dumb", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.IsTerminal = func(io.Writer) bool { return true }
			w.Getenv = func(k string) string { return map[string]string{"HOME": "/home/ann", "TERM": c.term}[k] }
			r := w.run(succeeded(), append([]string{"run", "mlp", "-d", "digits", "-e", "2"}, c.args...)...)
			require.Zero(t, r.code)
			require.Contains(t, r.err, "epoch 2/2  loss 0.400")
		})
	}
}

func TestScreenGoesOnUnderABarThatIsGone(t *testing.T) {
	var under bytes.Buffer
	s := newScreen(&under)
	s.cover(writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe }))
	n, err := s.Write([]byte("still here"))
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.Equal(t, "still here", under.String())
}

func TestLogLevels(t *testing.T) {
	for verbosity, want := range []string{"e", "iwe", "diwe", "diwe"} {
		var b bytes.Buffer
		log := newLog(&b, verbosity)
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		got := ""
		for _, line := range bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n")) {
			got += string(line[len(line)-1:])
		}
		require.Equal(t, want, got, "verbosity %d", verbosity)
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0 ms", 0.0234: "23 ms", 0.0994: "99 ms", 0.0996: "0.1 s", 0.84: "0.8 s", 59.94: "59.9 s", 59.96: "1m0s", 192.3: "3m12s", 7384: "2h3m4s"} {
		require.Equal(t, want, seconds(s))
	}
}
