package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// display shows how a job comes along.
type display interface {
	show(*messages.JobEvent)
	close() // the job has ended, or nobody can say
}

// newDisplay returns a live bar on a terminal, and plain lines elsewhere:
// where logs pass by, too.
func (s *session) newDisplay(t *messages.TrainTask, verbosity int) display {
	if verbosity == 0 && s.IsTerminal(s.Err) && s.Getenv("TERM") != "dumb" {
		return newBar(s.screen, t.GetEpochs(), time.Now)
	}
	return &lines{screen: s.screen, epochs: t.GetEpochs()}
}

// lines shows one line an epoch.
type lines struct {
	screen *screen
	epochs uint32
}

func (l *lines) show(e *messages.JobEvent) {
	if r := e.GetEpochFinished().GetRecord(); r != nil {
		fmt.Fprintln(l.screen, epochLine(r, l.epochs))
	}
}

func (l *lines) close() {}

// epochLine is an epoch in one line, of so many (0: not known); what was not
// measured is left out.
func epochLine(r *messages.EpochRecord, epochs uint32) string {
	of := ""
	if epochs > 0 {
		of = fmt.Sprintf("/%d", epochs)
	}
	parts := []string{fmt.Sprintf("epoch %d%s", r.GetEpoch(), of)}
	if loss := measured(&r.TrainLoss); loss != nil {
		parts = append(parts, fmt.Sprintf("loss %.3f", *loss))
	}
	if r.ValidationLoss != nil {
		parts = append(parts, fmt.Sprintf("val-loss %.3f", r.GetValidationLoss()))
	}
	if r.Accuracy != nil {
		parts = append(parts, fmt.Sprintf("accuracy %.1f %%", r.GetAccuracy()))
	}
	parts = append(parts,
		fmt.Sprintf("N=%d", r.GetParallelism()),
		fmt.Sprintf("samples %d", r.GetSamples()))
	if r.GetDroppedSamples() > 0 {
		parts = append(parts, fmt.Sprintf("dropped %d", r.GetDroppedSamples()))
	}
	if r.GetBackups() > 0 {
		parts = append(parts, fmt.Sprintf("backups %d", r.GetBackups()))
	}
	parts = append(parts, seconds(r.GetDurationS()))
	if trouble := troubles(r.GetRetries(), r.GetLostFunctions(), r.GetRejectedResults()); trouble != "" {
		parts = append(parts, trouble)
	}
	return strings.Join(parts, "  ")
}

// troubles names what went wrong and how often, or is empty.
func troubles(retries, lost, rejected uint32) string {
	var parts []string
	for _, t := range []struct {
		name  string
		times uint32
	}{{"retries", retries}, {"lost", lost}, {"rejected", rejected}} {
		if t.times > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", t.name, t.times))
		}
	}
	return strings.Join(parts, "  ")
}

// seconds is a duration for people: 23 ms, 0.8 s, 42.1 s, 3m12s.
func seconds(s float64) string {
	switch {
	case s < 0.0995:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 59.95:
		return fmt.Sprintf("%.1f s", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// count is a number of things: 1 epoch, 2 epochs.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
