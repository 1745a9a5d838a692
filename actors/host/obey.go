package host

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/messages"
)

// obey does what the state has ordered.
func (h *host) obey(ctx actor.Context) {
	o := h.state.take()
	for _, r := range o.start {
		h.start(ctx, r)
	}
	for _, r := range o.cancel {
		r.stop(r.cause)
		h.after(ctx, grace, &graceEnded{r})
	}
	for _, a := range o.answers {
		if a.to != nil {
			ctx.Send(a.to, a.what)
		}
	}
	if len(o.remove) > 0 {
		h.free(ctx, func(t Tensors) error { return t.Remove(o.remove...) })
	}
	for _, m := range o.release {
		h.free(ctx, func(t Tensors) error { return release(t, m) })
	}
	h.warn(o.retired, o.returned)
}

// warn says which slots were lost, and which lost ones came back.
func (h *host) warn(retired, returned []*run) {
	for _, r := range retired {
		h.log.Warn("function does not return: slot retired", append(fields(r), zap.Int("retired", h.state.retired()))...)
	}
	for _, r := range returned {
		h.log.Warn("function returned late: slot given back", append(fields(r), zap.Int("retired", h.state.retired()))...)
	}
}

// start has an attempt run. Its end comes through a timer of no length, since
// those are never lost; a host that crashes over it finds the result on the run.
func (h *host) start(ctx actor.Context, r *run) {
	rim, self, started := h.deps.Rim, ctx.Self(), h.deps.Rim.Now()
	r.disarm = func() {}
	r.stop = h.deps.Runner.Start(r.inv, r.slot, func(answer *messages.Invoked, err error) {
		r.result.Store(&result{answer: answer, err: err, took: rim.Now().Sub(started)})
		rim.SendAfter(0, self, &runEnded{r})
	})
	if limit := time.Duration(r.inv.GetPlan().GetTimeoutMs()) * time.Millisecond; limit > 0 {
		r.disarm = h.after(ctx, limit, &functionTimedOut{run: r, after: limit})
	}
}

// free removes tensors, off the actor: it is I/O.
func (h *host) free(ctx actor.Context, remove func(Tensors) error) {
	tensors := h.deps.Tensors
	h.deps.Rim.Go(ctx.Self(), func() any {
		if err := remove(tensors); err != nil {
			return &tensorsFailed{err}
		}
		return &tensorsGone{}
	})
}

func fields(r *run) []zap.Field {
	ref := r.inv.GetAttempt()
	return []zap.Field{
		zap.String("job_id", ref.GetJob().GetId()), zap.Uint64("incarnation", ref.GetJob().GetIncarnation()),
		zap.Uint32("epoch", ref.GetEpoch()), zap.Uint32("round", ref.GetRound()), zap.Uint32("function", ref.GetFunction()),
		zap.Uint32("attempt", ref.GetAttempt()), zap.Int("slot", r.slot),
	}
}
