package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// MaxEnded and MaxPast bound what is remembered.
const (
	MaxEnded = maxEnded
	MaxPast  = maxPast
)

// Script drives a state by commands, for tests of decisions. Jobs are called
// j1, j2 and so on.
type Script struct {
	state  *state
	policy *scriptedPolicy
	now    time.Time
	seqs   map[string]uint64 // of reports, by node and boot
}

// scriptedPolicy is a policy whose next answer may be given.
type scriptedPolicy struct {
	Policy
	answer *float64
}

func (p *scriptedPolicy) Parallelism(past []Measurement) float64 {
	if p.answer != nil {
		return *p.answer
	}
	return p.Policy.Parallelism(past)
}

// NewScript returns a script over an empty state.
func NewScript() *Script {
	policy := &scriptedPolicy{Policy: throughput{}}
	ids := 0
	newID := func() string { ids++; return fmt.Sprintf("j%d", ids) }
	return &Script{
		state: newState("lead", 1, policy, newID), policy: policy,
		now: time.Unix(1000, 0), seqs: map[string]uint64{},
	}
}

// Do runs one command and returns what the state answers, sends and posts.
func (s *Script) Do(command string) string {
	words := strings.Fields(command)
	args := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		args[name] = value
	}
	var out []string
	if reply := s.do(words, args); reply != "" {
		out = append(out, reply)
	}
	for _, e := range s.state.takeNews() {
		switch w := e.event.GetWhat().(type) {
		case *messages.JobEvent_Queued:
			out = append(out, "event "+e.job+" queued")
		case *messages.JobEvent_Warned:
			out = append(out, "event "+e.job+" warned: "+w.Warned.GetText())
		case *messages.JobEvent_Ended:
			of := e.job
			if e.incarnation > 0 {
				of += fmt.Sprintf(".%d", e.incarnation)
			}
			out = append(out, fmt.Sprintf("event %s %v: %s", of, w.Ended.GetResult().GetPhase(), w.Ended.GetResult().GetFailure().GetText()))
		case *messages.JobEvent_TakenOver:
			out = append(out, fmt.Sprintf("event %s.%d taken over: %s", e.job, e.incarnation, w.TakenOver.GetFailure().GetText()))
		}
	}
	for _, o := range s.state.takeOrders(s.now) {
		to := ""
		if s.state.members != nil { // else there is but one
			to = " to " + o.to
		}
		switch o := o.what.(type) {
		case *messages.StartJob:
			out = append(out, "StartJob "+o.GetJobId()+to+" "+size(o.GetSize()))
		case *messages.ResizeJob:
			out = append(out, "ResizeJob "+o.GetJob().GetId()+to+" "+size(o.GetSize()))
		case *messages.StopJob:
			out = append(out, "StopJob "+o.GetJobId()+to)
		}
	}
	if err := s.state.check(); err != nil {
		out = append(out, "BROKEN: "+err.Error())
	}
	return strings.Join(out, "\n")
}

func (s *Script) do(words []string, args map[string]string) string {
	arg := func(i int) string { return words[i] }
	switch words[0] {
	case "submit":
		return s.submit(args)
	case "host": // host NODE SLOTS [boot=b] [seq=n] [held=j1:2,j2:1] [label=a:b] [leaving=yes]
		s.state.onReport(s.now, s.report(arg(1), arg(2), args))
	case "nodes": // nodes NODE...: all that the cluster has
		s.state.onListed(s.now, &messages.NodesListed{Nodes: words[1:]})
	case "left": // left NODE BOOT
		s.state.onLeft(s.now, &messages.HostLeft{Node: arg(1), Boot: arg(2)})
	case "started": // started JOB[.INCARNATION]...
		for _, id := range words[1:] {
			id, incarnation, _ := strings.Cut(id, ".")
			s.state.onStartReply(s.now, &messages.StartJobReply{
				Job: &messages.JobRef{Id: id, Incarnation: max(1, number[uint64](incarnation))}, Phase: messages.Phase_PHASE_RUNNING,
			})
		}
	case "owned": // owned JOB.INCARNATION by=NODE [at=NODE]: as the home of a job finds, or the node that was it
		id, incarnation, _ := strings.Cut(arg(1), ".")
		at := args["at"]
		if j := s.state.jobs[id]; at == "" && j != nil {
			at = j.home
		}
		s.state.onStartReply(s.now, &messages.StartJobReply{
			Job: &messages.JobRef{Id: id, Incarnation: number[uint64](incarnation)}, Node: at, Owner: args["by"],
			Failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_CONFLICT, Text: "it runs on " + args["by"]},
		})
	case "ack": // ack JOB SEQ
		s.state.onResizeReply(&messages.ResizeJobReply{Job: &messages.JobRef{Id: arg(1)}, Seq: number[uint64](arg(2))})
	case "finished": // finished JOB[.INCARNATION]
		id, incarnation, _ := strings.Cut(arg(1), ".")
		s.state.onFinished(s.now, &messages.JobFinished{
			Job: &messages.JobRef{Id: id, Incarnation: max(1, number[uint64](incarnation))}, Result: &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED},
		})
	case "resume": // resume JOB key=k after=n [p=n] [home=NODE]
		reply := s.state.resume(s.now, &messages.ResumeJob{Key: args["key"], JobId: arg(1), AfterIncarnation: number[uint64](args["after"]), Home: args["home"], Task: &messages.TrainTask{
			FunctionName: "mlp", Dataset: "digits", Options: &messages.TrainOptions{DefaultParallelism: number[uint32](args["p"])},
		}})
		if reply.GetFailure() != nil {
			return fmt.Sprintf("reply %v: %s", reply.GetFailure().GetKind(), reply.GetFailure().GetText())
		}
		return fmt.Sprintf("reply %s after %d", reply.GetJobId(), reply.GetAfterIncarnation())
	case "stop": // stop JOB [key=k]
		return "reply " + s.state.stop(s.now, &messages.StopJob{JobId: arg(1), Reason: "enough", Key: args["key"]}).GetFailure().GetText()
	case "set": // set JOB N [key=k]: a person sets its parallelism
		err := s.state.set(s.now, &messages.SetParallelism{JobId: arg(1), Parallelism: number[uint32](arg(2)), Key: args["key"]})
		return fmt.Sprint("reply ", err)
	case "list":
		var out []string
		for _, h := range s.state.list(nil).GetHosts() {
			out = append(out, fmt.Sprintf("%s %d of %d busy, %d used", h.GetNode(), h.GetBusy(), h.GetSlots(), h.GetUsed()))
		}
		return strings.Join(out, "\n")
	case "policy": // policy NUMBER: what the policy answers from now on
		answer := number[float64](arg(1))
		s.policy.answer = &answer
	case "epoch": // epoch JOB EPOCH SECONDS-PER-1000-SAMPLES [incarnation=n]
		return s.epoch(arg(1), number[uint32](arg(2)), number[float64](arg(3)), args)
	case "wait": // wait DURATION
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			panic(err)
		}
		s.now = s.now.Add(d)
	case "tick":
		s.state.expireHosts(s.now)
		s.state.due(s.now)
	default:
		panic("no command " + words[0])
	}
	return ""
}

// submit queues a job: submit [p=n] [min=n] [max=n] [static] [prio=n] [key=k] [require=a:b] [node=n].
func (s *Script) submit(args map[string]string) string {
	key := args["key"]
	if key == "" {
		key = fmt.Sprintf("key %d", s.state.submissions)
	}
	_, static := args["static"]
	reply := s.state.submit(s.now, &messages.SubmitJob{Key: key, Task: &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Node: args["node"],
		Options: &messages.TrainOptions{
			DefaultParallelism: number[uint32](args["p"]), MinParallelism: number[uint32](args["min"]), MaxParallelism: number[uint32](args["max"]),
			StaticParallelism: static, RequireLabels: labels(args["require"]), Priority: number[int32](args["prio"]),
		},
	}})
	if reply.GetFailure() != nil {
		return fmt.Sprintf("reply %v: %s", reply.GetFailure().GetKind(), reply.GetFailure().GetText())
	}
	return strings.Join(append([]string{"reply " + reply.GetJobId()}, reply.GetWarnings()...), "; ")
}

func (s *Script) report(node, slots string, args map[string]string) *messages.HostReported {
	boot := args["boot"]
	if boot == "" {
		boot = "b1"
	}
	s.seqs[node+boot]++
	m := &messages.HostReported{Node: node, Boot: boot, Seq: s.seqs[node+boot], Slots: number[uint32](slots)}
	if args["seq"] != "" {
		m.Seq = number[uint64](args["seq"])
	}
	m.Labels, m.Leaving = labels(args["label"]), args["leaving"] != ""
	for held := range strings.SplitSeq(args["held"], ",") {
		id, n, _ := strings.Cut(held, ":")
		for range number[int](n) {
			m.Held = append(m.Held, &messages.AttemptRef{Job: &messages.JobRef{Id: id, Incarnation: 1}})
		}
	}
	return m
}

func labels(text string) map[string]string {
	key, value, ok := strings.Cut(text, ":")
	if !ok {
		return nil
	}
	return map[string]string{key: value}
}

func (s *Script) epoch(id string, epoch uint32, seconds float64, args map[string]string) string {
	incarnation := max(1, number[uint64](args["incarnation"]))
	n := uint32(1)
	if j := s.state.jobs[id]; j != nil {
		n = j.n
	}
	reply := s.state.onRequest(s.now, &messages.RequestParallelism{
		Job: &messages.JobRef{Id: id, Incarnation: incarnation}, Epoch: epoch, Parallelism: n, Seconds: seconds, Samples: 1000,
	})
	if reply == nil {
		return "no reply"
	}
	out := fmt.Sprintf("reply epoch %d %s", reply.GetEpoch(), size(reply.GetSize()))
	if reply.GetWarning() != "" {
		out += "; " + reply.GetWarning()
	}
	return out
}

// State describes the jobs and the free slots.
func (s *Script) State() string {
	var out []string
	for _, j := range s.state.live {
		line := fmt.Sprintf("%s %s %s", j.id, map[phase]string{starting: "starts", running: "runs"}[j.phase], size(j.size(1, outlook{})))
		if j.wanted != j.n {
			line += fmt.Sprintf(" wants %d", j.wanted)
		}
		out = append(out, line)
	}
	for _, j := range s.state.queue {
		out = append(out, j.id+" is queued")
	}
	free := s.state.free()
	slices.SortFunc(free.hosts, func(a, b spareHost) int { return strings.Compare(a.node, b.node) })
	for _, h := range free.hosts {
		if h.free == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%s has %d free", h.node, h.free))
	}
	return strings.Join(out, "\n")
}

// Remembered returns how many jobs, keys and ended jobs are kept.
func (s *Script) Remembered() (jobs, keys, ended int) {
	return len(s.state.jobs), len(s.state.keys), len(s.state.ended.order)
}

func size(m *messages.JobSize) string {
	out := fmt.Sprintf("N=%d seq=%d", m.GetParallelism(), m.GetSeq())
	for _, g := range m.GetGrants() {
		out += fmt.Sprintf(" %s:%d", g.GetNode(), g.GetSlots())
	}
	if len(m.GetGone()) > 0 {
		out += " gone=" + strings.Join(m.GetGone(), ",")
	}
	return out
}

// number reads a number; of an empty text it is 0.
func number[T int | int32 | uint32 | uint64 | float64](text string) T {
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return T(f)
}

// Observed is Props whose actor hands out a look at what it knows: the check of
// its invariants, and how many jobs and outboxes it keeps.
func Observed(deps Deps, observe func(check func() error, kept func() (jobs, outboxes int))) *actor.Props {
	return Props(deps).Configure(actor.WithProducer(func() actor.Actor {
		s := newScheduler(deps)
		observe(s.state.check, func() (int, int) { return len(s.state.jobs), len(s.mail.boxes) })
		return s
	}))
}
