package host

import (
	"fmt"

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
	for _, a := range o.add {
		h.startAdding(ctx, a)
	}
	for _, a := range o.abandon {
		a.stop()
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
	h.warnRetired(o.retired, o.returned)
	h.warnQuarantined(o.quarantined, o.offered)
}

// warnRetired says which slots were lost, and which lost ones came back.
func (h *host) warnRetired(retired, returned []*run) {
	for _, r := range retired {
		h.log.Warn("function does not return: slot retired", append(fields(r), zap.Int("retired", h.state.retired()))...)
		h.warn("slot %d is not used any more: function %q does not return though it was cancelled; %d of %d slots are left "+
			"(a function must return within %v of the end of its context; with --isolate it is killed)",
			r.slot, r.inv.GetPlan().GetFunctionName(), h.state.usable(), h.deps.Slots, grace)
	}
	for _, r := range returned {
		h.log.Warn("function returned late: slot given back", append(fields(r), zap.Int("retired", h.state.retired()))...)
	}
}

// warnQuarantined says which slots are not offered for a while, and which are
// again.
func (h *host) warnQuarantined(quarantined []quarantined, offered []int) {
	for _, q := range quarantined {
		h.log.Warn("slot fails again and again: in quarantine", zap.Int("slot", q.slot), zap.Int("failures", q.row),
			zap.Duration("for", q.spell), zap.String("error", q.reason), zap.Int("quarantined", h.state.quarantinedSlots()))
		h.warn("slot %d is not used for %v: the last %d attempts on it failed while other slots answered; %d of %d slots are left; the last one: %s",
			q.slot, q.spell, q.row, h.state.usable(), h.deps.Slots, q.reason)
	}
	for _, slot := range offered {
		h.log.Info("slot tried again after its quarantine", zap.Int("slot", slot))
	}
}

func (h *host) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if h.deps.Warn == nil || !h.deps.Warn(text) {
		h.state.warned(h.deps.Node, text)
	}
}

// start has an attempt run. Its end comes through a timer of no length, since
// those are never lost; a host that crashes over it finds the result on the run.
func (h *host) start(ctx actor.Context, r *run) {
	rim, self, started := h.deps.Rim, ctx.Self(), h.deps.Rim.Now()
	r.disarm = func() {}
	began := func() {
		if now := rim.Now(); r.began.CompareAndSwap(nil, &now) {
			rim.SendAfter(0, self, &functionBegan{r})
		}
	}
	r.stop = h.deps.Runner.Start(r.inv, r.slot, began, func(answer *messages.Invoked, err error) {
		took := rim.Now().Sub(started)
		if at := r.began.Load(); at != nil {
			took = rim.Now().Sub(*at)
		}
		r.result.Store(&result{answer: answer, err: err, took: took})
		rim.SendAfter(0, self, &runEnded{r})
	})
	if limit := timeLimit(r.inv); limit > 0 {
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
