package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// meter is what a live bar knows of its job: it reads events and a clock, and
// shows nothing itself.
type meter struct {
	epochs  uint32
	samples uint64 // of an epoch; 0 before the job has started

	epoch, round uint32 // 0 before the first
	n            uint32
	phase        string
	loss         float64  // of the last round; shown once a round is merged
	accuracy     *float64 // the last measured

	done      uint64    // samples merged, over all epochs
	start     time.Time // when done was startDone
	startDone uint64
}

// add takes the next event, of now.
func (m *meter) add(e *messages.JobEvent, now time.Time) {
	switch what := e.GetWhat().(type) {
	case *messages.JobEvent_Queued:
		m.phase = "queued"
	case *messages.JobEvent_Started:
		m.phase = "starting"
		m.samples = what.Started.GetTrainSamples()
		m.n = what.Started.GetParallelism()
		if epoch := what.Started.GetEpoch(); epoch > 0 { // it goes on
			m.epoch, m.round = epoch, what.Started.GetRound()
			m.done = uint64(epoch-1) * m.samples // of its own epoch, the next round says
		}
	case *messages.JobEvent_EpochStarted:
		m.phase = ""
		m.epoch, m.round, m.n = what.EpochStarted.GetEpoch(), 0, what.EpochStarted.GetParallelism()
		m.done = uint64(m.epoch-1) * m.samples
		if m.start.IsZero() {
			m.start, m.startDone = now, m.done
		}
	case *messages.JobEvent_RoundMerged:
		r := what.RoundMerged
		m.epoch, m.round, m.n, m.loss = r.GetEpoch(), r.GetRound(), r.GetParallelism(), r.GetLoss()
		m.done = uint64(m.epoch-1)*m.samples + r.GetEpochSamples()
	case *messages.JobEvent_EpochFinished:
		if accuracy := what.EpochFinished.GetRecord().Accuracy; accuracy != nil {
			m.accuracy = accuracy
		}
	}
}

// total is how many samples the job merges, 0 while that is unknown.
func (m *meter) total() uint64 { return uint64(m.epochs) * m.samples }

// rate is samples a second since the first epoch began, validation included;
// 0 while that cannot be said.
func (m *meter) rate(now time.Time) float64 {
	elapsed := now.Sub(m.start).Seconds()
	if m.start.IsZero() || elapsed <= 0 || m.done <= m.startDone {
		return 0
	}
	return float64(m.done-m.startDone) / elapsed
}

// line is the state of the job at now, at most about 65 columns: a bar has
// room beside it on a terminal of 80.
func (m *meter) line(now time.Time) string {
	if m.epoch == 0 {
		return m.phase
	}
	parts := []string{fmt.Sprintf("epoch %d/%d", m.epoch, m.epochs)}
	if m.round > 0 {
		parts = append(parts, fmt.Sprintf("round %d", m.round))
	}
	parts = append(parts, fmt.Sprintf("N=%d", m.n))
	if m.done > 0 && measured(&m.loss) != nil {
		parts = append(parts, fmt.Sprintf("loss %.3f", m.loss))
	}
	if m.accuracy != nil {
		parts = append(parts, fmt.Sprintf("acc %.1f%%", *m.accuracy))
	}
	if rate := m.rate(now); rate > 0 {
		parts = append(parts, fmt.Sprintf("%.0f samples/s", rate))
		if left := m.total() - min(m.done, m.total()); left > 0 {
			eta := time.Duration(float64(left) / rate * float64(time.Second)).Round(time.Second)
			parts = append(parts, "ETA "+eta.String())
		}
	}
	return strings.Join(parts, " ")
}
