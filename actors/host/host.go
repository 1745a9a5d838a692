package host

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/messages"
)

const (
	reportEvery = time.Second           // at least; leases are looked at as often
	reportGap   = 10 * time.Millisecond // at most: short functions make one report together
	grace       = time.Second           // in which a cancelled run has to return
)

// Deps is everything a host may touch outside its own state. All are required
// but Labels, Version, Stacks, Warn and Options.
type Deps struct {
	Log  *zap.Logger
	Rim  actorkit.Rim
	Node string
	// Boot names this life of the process. Reports name it with the number of
	// the actor's start added, because a restarted host counts from 1 again.
	Boot    string
	Slots   int               // attempts that run at once, at least 1
	Labels  map[string]string // what people say of the node
	Version string            // of this program
	Runner  Runner
	Tensors Tensors // where the runner's answers lie
	// Scheduler is who hears about slots; nil while nobody does.
	Scheduler func() *actor.PID
	// Stacks says where the functions of a job are that run here, by function. It may
	// take a second, and is called off the actor; nil: nobody knows.
	Stacks func(job string) map[int]string
	// Warn gets what people should know of the slots, and reports whether those who
	// follow jobs hear of it; else the jobs say so that have attempts here. Nil: they do.
	Warn    func(text string) (heard bool)
	Options []actor.PropsOption
}

// Props describes the host of a node. It has no children, and is restarted in
// place: see the package comment for what that loses.
func Props(deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	estate := &estate{kept: map[string]*messages.JobState{}, lent: deps.Slots}
	return actor.PropsFromProducer(func() actor.Actor {
		return &host{deps: deps, log: deps.Log.With(zap.String("node", deps.Node)), estate: estate}
	}, opts...)
}

// host runs only inside Receive; no goroutine may see its fields.
type host struct {
	deps   Deps
	log    *zap.Logger
	estate *estate
	state  state
	boot   string
	ticks  func() // ends the next tick

	seq      uint64    // of the last report
	reported time.Time // when that was
	gap      func()    // ends the wait for the next one; nil: nothing waits
}

// estate is what is true of a host across its restarts. It is handed from one
// value of the actor to the next, and touched inside Receive only.
type estate struct {
	boots int
	runs  []*run                        // that held a slot when the last value went
	kept  map[string]*messages.JobState // by job: the latest of those that run here
	lent  int                           // slots that are offered
	offer uint64                        // that said so; 0: none, and all are
	drain bool                          // the node is about to go
}

// What a host tells itself. A run is told apart by its address.
type (
	runEnded         struct{ run *run } // its result is set
	functionBegan    struct{ run *run }
	functionTimedOut struct {
		run   *run
		after time.Duration
	}
	graceEnded    struct{ run *run } // since its cancel
	ticked        struct{ boot string }
	gapEnded      struct{ boot string }
	tensorsFailed struct{ err error }
	tensorsGone   struct{}
)

// Receive dispatches: one case, one call.
func (h *host) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		h.onStarted(ctx)
	case *messages.Invoke:
		h.state.invoke(m, ctx.Sender(), h.deps.Rim.Now())
	case *messages.CancelInvocation:
		h.state.cancel(m, h.deps.Rim.Now())
	case *Warned:
		h.state.warned(h.deps.Node, m.Text)
	case *messages.DrainHost:
		h.onDrainHost(ctx)
	case *messages.HostVacated:
		h.state.vacated(m.GetJob())
	case *messages.OfferSlots:
		h.onOfferSlots(ctx, m)
	case *messages.SlotsLent:
		h.state.lendTo(m, h.deps.Rim.Now())
	case *messages.KeepState:
		h.onKeepState(m)
	case *messages.AskState:
		h.onAskState(ctx, m)
	case *messages.MergePlan:
		h.state.add(m, ctx.Sender())
	case *added:
		h.onAdded(m)
	case *messages.ReleaseTensors:
		h.onReleaseTensors(ctx, m)
	case *messages.AskStacks:
		h.onAskStacks(ctx, m)
	case *stacksTaken:
		ctx.Send(m.asker, m.reply)
	case *functionBegan:
		h.state.began(m.run)
	case *runEnded:
		h.onRunEnded(m.run)
	case *functionTimedOut:
		h.state.timeOut(m.run, m.after, h.deps.Rim.Now())
	case *graceEnded:
		h.state.retire(m.run)
	case *ticked:
		h.onTicked(ctx, m)
	case *gapEnded:
		if m.boot == h.boot {
			h.gap = nil
		}
	case *tensorsFailed:
		h.log.Warn("tensors not removed", zap.Error(m.err))
	case *actorkit.WorkPanicked:
		h.log.Error("work of the host panicked", zap.Error(m.Err))
	case *tensorsGone:
	case *actor.Restarting:
		h.leave()
		return
	case *actor.Stopping:
		h.leave()
		h.tell(ctx, &messages.HostLeft{Node: h.deps.Node, Boot: h.boot})
		return
	default:
		actorkit.Unhandled(h.log, ctx)
	}
	h.obey(ctx)
	h.report(ctx)
	invariant.Check(h.state.check)
}

// onStarted takes over the runs that an earlier value of the actor left behind.
func (h *host) onStarted(ctx actor.Context) {
	h.estate.boots++
	h.boot = fmt.Sprintf("%s.%d", h.deps.Boot, h.estate.boots)
	left := h.estate.runs
	h.estate.runs = nil
	h.state = newState(h.deps.Slots, left)
	h.state.node, h.state.starts, h.state.elsewhere = h.deps.Node, h.deps.Runner.Starts, h.deps.Runner.Elsewhere
	h.state.lend(h.estate.lent)
	for _, r := range left {
		if r.result.Load() != nil { // else it will say so
			h.onRunEnded(r)
			continue
		}
		h.after(ctx, grace, &graceEnded{r})
	}
	h.state.changed = true
	h.tickAgain(ctx)
}

// leave cancels what runs. A run that was to be started when its start panicked
// has no stop: it does not exist.
func (h *host) leave() {
	h.stopAdding()
	for _, r := range h.state.slots {
		if r != nil && r.stop != nil {
			r.disarm()
			r.stop(context.Canceled)
			h.estate.runs = append(h.estate.runs, r)
		}
	}
	for _, cancel := range []func(){h.ticks, h.gap} {
		if cancel != nil {
			cancel()
		}
	}
}

func (h *host) onReleaseTensors(ctx actor.Context, m *messages.ReleaseTensors) {
	h.state.release(m)
	h.estate.forget(m)
	if m.GetEverything() && ctx.Sender() != nil {
		ctx.Respond(&messages.ReleaseTensorsReply{Job: m.GetStep().GetJob(), Node: h.deps.Node})
	}
}

func (h *host) onRunEnded(r *run) {
	r.disarm()
	h.state.ended(r, r.result.Load(), h.deps.Rim.Now())
}

func (h *host) onTicked(ctx actor.Context, m *ticked) {
	if m.boot != h.boot {
		return
	}
	h.state.expire(h.deps.Rim.Now())
	h.state.parole(h.deps.Rim.Now())
	h.state.changed = true // said once a second in any case
	h.tickAgain(ctx)
}

func (h *host) tickAgain(ctx actor.Context) {
	h.ticks = h.after(ctx, reportEvery, &ticked{h.boot})
}

func (h *host) after(ctx actor.Context, d time.Duration, msg any) (cancel func()) {
	return h.deps.Rim.SendAfter(d, ctx.Self(), msg)
}

// report says what the slots are at, if that has changed, now or when the gap
// since the last report has passed.
func (h *host) report(ctx actor.Context) {
	if !h.state.changed || h.gap != nil {
		return
	}
	now := h.deps.Rim.Now()
	if early := h.reported.Add(reportGap).Sub(now); early > 0 {
		h.gap = h.after(ctx, early, &gapEnded{h.boot})
		return
	}
	h.reportNow(ctx, now)
}

func (h *host) reportNow(ctx actor.Context, now time.Time) {
	usable, held := h.state.report()
	h.seq++
	h.reported = now
	h.tell(ctx, &messages.HostReported{Node: h.deps.Node, Boot: h.boot, Seq: h.seq, Slots: usable, Held: held, Labels: h.deps.Labels, Version: h.deps.Version, Leaving: h.estate.drain})
}

func (h *host) tell(ctx actor.Context, msg any) {
	actorkit.Send(ctx, h.deps.Scheduler(), msg)
}
