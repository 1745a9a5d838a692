package train

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// storing is the work of storing the result.
type storing struct {
	waits   bool      // for a save to end, of which there is one at a time
	running bool      // a try
	began   time.Time // the first
	why     error     // the last try failed; nil: none has
	said    time.Time // when people last heard of it
}

// complaint returns what people should know about a result that the store does
// not take, at most once a minute; "" for nothing. back says where a resume would
// go on.
func (s *storing) complaint(now time.Time, back string) string {
	slow := s.running && now.Sub(s.began) >= complainGap
	if s.why == nil && !slow || !s.said.IsZero() && now.Sub(s.said) < complainGap {
		return ""
	}
	s.said = now
	what := fmt.Sprintf("the store has been taking the result for %v", now.Sub(s.began).Round(time.Second))
	if s.why != nil {
		what = fmt.Sprintf("the result cannot be stored: %v", s.why)
	}
	return fmt.Sprintf("training is done, but %s; it is tried again until the store takes it, so mend that, or stop the job: resumed later it would go on %s", what, back)
}

// save stores the result and with it the end of the job: only then it has
// SUCCEEDED, and only then anybody hears of it.
func (j *job) save(ctx actor.Context) {
	s := &j.storing
	if s.running {
		return
	}
	j.checkpoint() // first, so that no training is lost over the result
	if s.waits = j.saver.running != nil; s.waits {
		return
	}
	now := j.deps.Rim.Now()
	if s.running = true; s.began.IsZero() {
		s.began = now
	}
	ref, task, work, vault := j.state.ref, j.state.task, j.work, j.vault
	model, result := wire.PlaneRef(j.state.resultModel()), j.result(messages.Phase_PHASE_SUCCEEDED, nil)
	last := j.lastState(result)
	j.deps.Rim.Go(ctx.Self(), func() any {
		// Readers see the highest incarnation's result: one that is over must
		// not give them one before its successor does.
		if err := vault.Beat(work); err != nil {
			return &saved{lost: fault.KindOf(err) == fault.Conflict, err: err}
		}
		blob, err := j.deps.Space.Open(work, model)
		if err != nil {
			return &saved{err: fmt.Errorf("open the result: %w", err)}
		}
		defer blob.Close()
		refused := false
		err = vault.End(work, last, func(ctx context.Context) (err error) {
			result.Model, err = j.deps.Models.Save(ctx, ref, task, result, blob)
			refused = err != nil
			return err
		})
		return &saved{result: result, lost: fault.KindOf(err) == fault.Conflict && !refused, err: err}
	})
}

func (j *job) onSaved(ctx actor.Context, m *saved) {
	s := &j.storing
	s.running, s.why = false, m.err
	switch {
	case m.err == nil && !j.sealed && !j.lost: // even if it was to stop meanwhile: it is done, and all is stored
		j.close(ctx, m.result)
		j.told(ctx)
	case j.ended != nil:
		j.seal(ctx)
	case m.lost:
		j.superseded(m.err)
	default:
		j.retryEffect(save, m.err)
	}
}

// complain tells people once a minute what the store does not take.
func (j *job) complain() {
	now := j.deps.Rim.Now()
	text := ""
	if j.state.saving {
		text = j.storing.complaint(now, j.saver.back(j.state.marked))
	}
	if text == "" && j.storing.why == nil { // which says it all
		text = j.saver.complaint(now, j.waitsFor.Load())
	}
	if text != "" {
		j.state.warn(text)
	}
}

// stopped is why a job was stopped. One whose result was not stored says so, and
// where a resume goes on: the store has its last state, or it does not.
func (j *job) stopped(reason string, sealed bool) *messages.Failure {
	f := &messages.Failure{Op: "train.stop", Text: reason}
	if why := j.storing.why; why != nil {
		back := "stores it"
		if !sealed {
			back = "goes on " + j.saver.back(j.state.marked)
		}
		f.Text = fmt.Sprintf("%s; training was done, but the result could not be stored: %v; a resume %s", reason, why, back)
	}
	return f
}

// prompt has the store asked at once for what it did not take: it is back.
func (j *job) prompt(ctx actor.Context) {
	j.saver.retry = time.Time{}
	if j.storing.why != nil && j.ended == nil && j.state.fatal == nil {
		j.log.Info("the store is back", zap.NamedError("was", j.storing.why))
		j.save(ctx)
	}
}
