package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// JobsRemembered bounds what is remembered of jobs without attempts.
const JobsRemembered = jobsRemembered

// SplitsKept is how many splits stay open.
const SplitsKept = splitsKept

// Release frees what a ReleaseTensors lets go.
func Release(t Keys, m *messages.ReleaseTensors) error { return release(t, m) }

// AnswerKey names a tensor of an answer.
func AnswerKey(ref *messages.AttemptRef, nonce uint64, part string) string {
	return answerKey(ref, nonce, part)
}

// Blames reports whether a failure is chaos's doing.
func Blames(s functions.Sabotage, timedOut bool) bool { return blames(s, timedOut) }

// Spoil writes a NaN into a copy of a state dict.
func Spoil(space plane.Space, ref plane.Ref, key string, at float64) (plane.Ref, error) {
	return spoil(context.Background(), space, ref, key, at)
}

// Damage changes bytes in a copy of a state dict.
func Damage(space plane.Space, ref plane.Ref, key string, drawn uint64) (plane.Ref, error) {
	return damage(context.Background(), space, ref, key, drawn)
}

// NewLocalOf returns a Local that executes a function.
func NewLocalOf(execute func(context.Context, *messages.Invoke, int) (*messages.Invoked, error)) *Local {
	return &Local{close: func() {}, execute: func(ctx context.Context, inv *messages.Invoke, slot int, _ func()) (*messages.Invoked, error) {
		return execute(ctx, inv, slot)
	}}
}

// Script drives a state by commands, for tests of decisions. An attempt is
// written job.incarnation.epoch.round.function.attempt, with a v in front when
// it validates.
type Script struct {
	state state
	now   time.Time

	additions []*addition // that were begun
}

// NewScript returns a script over a host with no slots; see the command slots.
func NewScript() *Script { return &Script{state: newState(0, nil), now: time.Unix(1000, 0)} }

// Do runs one command and returns what it orders.
func (s *Script) Do(command string) string {
	words := strings.Fields(command)
	verb, args := words[0], words[1:]
	switch verb {
	case "slots": // slots N: a new host; what runs holds its slot
		s.restart(atoi(args[0]))
	case "lend": // lend N: so many are offered from now on
		s.state.lend(atoi(args[0]))
	case "lent": // lent JOB.INCARNATION SEQ N: a job in a process of its own has N
		s.state.lendTo(&messages.SlotsLent{Job: parseRef(args[0] + ".0.0").GetJob(), Seq: uint64(atoi(args[1])), Slots: uint32(atoi(args[2]))}, s.now)
	case "wait":
		d, _ := time.ParseDuration(args[0])
		s.now = s.now.Add(d)
		s.state.expire(s.now)
		s.state.parole(s.now)
	case "invoke":
		for _, name := range args {
			s.state.invoke(&messages.Invoke{Attempt: parseRef(name), Plan: &messages.RoundPlan{TimeoutMs: 60_000}}, actor.NewPID("test", name), s.now)
		}
	case "cancel":
		for _, name := range args {
			s.state.cancel(&messages.CancelInvocation{Attempt: parseRef(name)}, s.now)
		}
	case "cut": // its job says that it had its time
		s.state.cancel(&messages.CancelInvocation{Attempt: parseRef(args[0]), Overdue: true}, s.now)
	case "release": // release STEP [everything]
		s.state.release(&messages.ReleaseTensors{Step: parseRef(args[0]), Everything: slices.Contains(args, "everything")})
	case "plan": // plan STEP SEQ FUNCTION.ATTEMPT...: the models of these are to be added up
		m := &messages.MergePlan{Step: parseRef(args[0]), Seq: uint64(atoi(args[1])), Models: []*messages.Subtree{{}}}
		for _, name := range args[2:] {
			function, attempt, _ := strings.Cut(name, ".")
			m.Models[0].Functions = append(m.Models[0].Functions, uint32(atoi(function)))
			m.Models[0].Attempts = append(m.Models[0].Attempts, uint32(atoi(attempt)))
			m.Models[0].Weights = append(m.Models[0].Weights, 1)
		}
		s.state.add(m, actor.NewPID("test", "train"))
	case "added": // added SEQ: that was done
		for _, a := range s.additions {
			if a.plan.GetSeq() == uint64(atoi(args[0])) {
				s.state.added(a, &messages.MergePlanReply{Seq: a.plan.GetSeq(), Done: true, Models: []*messages.TensorRef{{Key: "sum-" + args[0]}}})
			}
		}
	case "answer":
		key := args[0] + "/model"
		s.ended(args[0], &messages.Invoked{Model: &messages.TensorRef{Key: key}}, nil)
	case "fail":
		s.ended(args[0], nil, fault.New("test.fail", fault.UserCode, "raised"))
	case "reject":
		s.ended(args[0], nil, fault.New("test.fail", fault.Rejected, "tensor w: NaN"))
	case "crash":
		s.ended(args[0], nil, fault.New("test.fail", fault.Unavailable, "crashed"))
	case "chaos": // it was broken on purpose
		s.find(args[0]).inv.Plan.Chaos = &messages.ChaosPlan{Kill: 1}
		s.ended(args[0], nil, fault.New("test.fail", fault.Unavailable, "killed"))
	case "timeout":
		s.state.timeOut(s.find(args[0]), time.Minute, s.now)
	case "overdue":
		s.state.retire(s.find(args[0]))
	default:
		return "BROKEN: no command " + verb
	}
	if err := s.state.check(); err != nil {
		return "BROKEN: " + err.Error()
	}
	return s.obey()
}

// restart makes a host that finds the runs of the one before.
func (s *Script) restart(slots int) {
	var left []*run
	for _, r := range s.state.slots {
		if r != nil {
			left = append(left, r)
		}
	}
	s.state = newState(slots, left)
}

func (s *Script) ended(name string, answer *messages.Invoked, err error) {
	s.state.ended(s.find(name), &result{answer: answer, err: err, took: time.Second}, s.now)
}

// find returns the run of an attempt; of two the one that was cancelled.
func (s *Script) find(name string) *run {
	var found *run
	for _, r := range s.state.slots {
		if r != nil && nameOf(r.inv.GetAttempt()) == name && (found == nil || r.cancelled) {
			found = r
		}
	}
	return found
}

func (s *Script) obey() string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	o := s.state.take()
	for _, r := range o.start {
		say("start %s on %d", nameOf(r.inv.GetAttempt()), r.slot)
	}
	for _, r := range o.cancel {
		why := ""
		if r.cause == context.DeadlineExceeded {
			why = ": overdue"
		}
		say("stop %s on %d%s", nameOf(r.inv.GetAttempt()), r.slot, why)
	}
	for _, a := range o.add {
		s.additions = append(s.additions, a)
		of := "what is not here"
		if a.models[0] != nil {
			of = ""
			for _, one := range a.models[0] {
				of += " " + one.ref.GetKey()
			}
		}
		say("add up%s, plan %d", strings.TrimRight(" "+strings.TrimSpace(of), " "), a.plan.GetSeq())
	}
	for _, a := range o.abandon {
		say("stop adding, plan %d", a.plan.GetSeq())
	}
	for _, a := range o.answers {
		say("%s: %s", a.to.GetId(), describe(a.what))
	}
	for _, key := range o.remove {
		say("remove %s", key)
	}
	for _, m := range o.release {
		say("release up to %s, everything %t", nameOf(m.GetStep()), m.GetEverything())
	}
	for _, r := range o.retired {
		say("slot %d retired", r.slot)
	}
	for _, r := range o.returned {
		say("slot %d is back", r.slot)
	}
	for _, q := range o.quarantined {
		say("slot %d in quarantine for %v after %d failures: %s", q.slot, q.spell, q.row, q.reason)
	}
	for _, slot := range o.offered {
		say("slot %d on probation", slot)
	}
	return strings.Join(lines, "\n")
}

func describe(m proto.Message) string {
	switch m := m.(type) {
	case *messages.InvokeAccepted:
		if m.GetRunning() {
			return "runs"
		}
		return "waits"
	case *messages.Invoked:
		return "answered " + m.GetModel().GetKey()
	case *messages.MergePlanReply:
		if m.GetDone() {
			return fmt.Sprintf("plan %d is done: %s", m.GetSeq(), m.GetModels()[0].GetKey())
		}
		return fmt.Sprintf("plan %d is at work", m.GetSeq())
	case *messages.InvokeFailed:
		return fmt.Sprintf("%v: %s", fault.KindOf(wire.Error(m.GetFailure())), m.GetFailure().GetText())
	}
	return fmt.Sprintf("BROKEN: %T", m)
}

// State returns what the slots and the queue hold.
func (s *Script) State() string {
	usable, held := s.state.report()
	line := fmt.Sprintf("%d of %d slots usable, %d held:", usable, len(s.state.slots), len(held))
	for slot, r := range s.state.slots {
		switch {
		case r == nil && !s.state.offered(slot):
			line += " x"
		case r == nil:
			line += " -"
		case r.retired:
			line += " (" + nameOf(r.inv.GetAttempt()) + ", retired)"
		case r.cancelled:
			line += " (" + nameOf(r.inv.GetAttempt()) + ")"
		default:
			line += " " + nameOf(r.inv.GetAttempt())
		}
	}
	for _, ref := range s.state.heldElsewhere() {
		line += fmt.Sprintf(" {%s.%d}", ref.GetJob().GetId(), ref.GetJob().GetIncarnation())
	}
	if s.state.queue.Len() > 0 {
		line += "; queue:"
		for _, a := range s.state.open()[:s.state.queue.Len()] {
			line += " " + nameOf(a.inv.GetAttempt())
		}
	}
	return line
}

// Jobs returns how many jobs something is known of.
func (s *Script) Jobs() int { return len(s.state.jobs) }

func parseRef(name string) *messages.AttemptRef {
	task := messages.Task_TASK_TRAIN
	if rest, ok := strings.CutPrefix(name, "v"); ok {
		name, task = rest, messages.Task_TASK_VALIDATE
	}
	parts := append(strings.Split(name, "."), "0", "0")
	n := func(i int) uint32 { return uint32(atoi(parts[i])) }
	return &messages.AttemptRef{
		Job:   &messages.JobRef{Id: parts[0], Incarnation: uint64(n(1))},
		Epoch: n(2), Round: n(3), Task: task, Function: n(4), Attempt: n(5),
	}
}

func nameOf(ref *messages.AttemptRef) string {
	name := fmt.Sprintf("%s.%d.%d.%d", ref.GetJob().GetId(), ref.GetJob().GetIncarnation(), ref.GetEpoch(), ref.GetRound())
	if ref.GetAttempt() > 0 {
		name += fmt.Sprintf(".%d.%d", ref.GetFunction(), ref.GetAttempt())
	}
	if ref.GetTask() == messages.Task_TASK_VALIDATE {
		name = "v" + name
	}
	return name
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// WarningsOf returns what came along with an error.
func WarningsOf(err error) []string { return warningsOf(err) }
