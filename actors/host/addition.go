package host

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/messages"
)

// addition is what the host adds up of a round, as the job's TrainJob has planned.
type addition struct {
	node              string // the host's
	plan              *messages.MergePlan
	models, optimizer []subtotal               // by subtree
	asker             *actor.PID               // who sent the plan last
	reply             *messages.MergePlanReply // nil: the host is at it

	stop context.CancelFunc // the actor's: ends the work; nil until it was started
}

// subtotal is the answers of one subtree. Nil: not all of them are here.
type subtotal []summand

type summand struct {
	ref      *messages.TensorRef
	function uint32
	weight   float64
}

// status is the answer to the plan.
func (a *addition) status() *messages.MergePlanReply {
	if a.reply != nil {
		return a.reply
	}
	return &messages.MergePlanReply{Step: a.plan.GetStep(), Seq: a.plan.GetSeq(), Node: a.node}
}

// add takes a plan on, or tells again how it is. One that is late is dropped.
func (s *state) add(m *messages.MergePlan, asker *actor.PID) {
	j := s.hear(m.GetStep())
	if j.refuse(m.GetStep()) != nil || j.adding != nil && m.GetSeq() < j.adding.plan.GetSeq() {
		return
	}
	if j.adding == nil || m.GetSeq() > j.adding.plan.GetSeq() {
		s.abandon(j)
		j.adding = &addition{
			node:      s.node,
			plan:      m,
			models:    j.subtotals(m.GetModels(), (*messages.Invoked).GetModel),
			optimizer: j.subtotals(m.GetOptimizers(), (*messages.Invoked).GetOptimizer),
		}
		s.orders.add = append(s.orders.add, j.adding)
	}
	j.adding.asker = asker
	s.answer(asker, j.adding.status())
}

// subtotals finds the answers that subtrees name: what an attempt gave in an
// earlier life of the host is not known any more.
func (j *job) subtotals(trees []*messages.Subtree, part func(*messages.Invoked) *messages.TensorRef) []subtotal {
	out := make([]subtotal, len(trees))
	for i, tree := range trees {
		functions, attempts, weights := tree.GetFunctions(), tree.GetAttempts(), tree.GetWeights()
		if len(attempts) != len(functions) || len(weights) != len(functions) {
			continue
		}
		var all subtotal
		for k, function := range functions {
			var answer *messages.Invoked
			if a := j.attempts[place{function, attempts[k]}]; a != nil {
				answer, _ = a.end.(*messages.Invoked)
			}
			if part(answer) == nil {
				all = nil
				break
			}
			all = append(all, summand{ref: part(answer), function: function, weight: weights[k]})
		}
		out[i] = all
	}
	return out
}

// added takes what came of an addition, unless nobody wants it any more.
func (s *state) added(a *addition, reply *messages.MergePlanReply) {
	j := s.jobs[a.plan.GetStep().GetJob().GetId()]
	if j == nil || j.adding != a {
		s.orders.remove = append(s.orders.remove, sumKeys(reply)...)
		return
	}
	a.reply = reply
	s.answer(a.asker, reply)
}

// abandon ends a job's addition, whose step is over or whose plan is another one.
func (s *state) abandon(j *job) {
	if j.adding == nil {
		return
	}
	s.orders.abandon = append(s.orders.abandon, j.adding)
	s.orders.remove = append(s.orders.remove, sumKeys(j.adding.reply)...)
	j.adding = nil
}

// sumKeys names the sums of a reply.
func sumKeys(reply *messages.MergePlanReply) []string {
	var keys []string
	for _, refs := range [][]*messages.TensorRef{reply.GetModels(), reply.GetOptimizers()} {
		for _, ref := range refs {
			if ref.GetKey() != "" {
				keys = append(keys, ref.GetKey())
			}
		}
	}
	return keys
}

// startAdding has an addition made, off the actor.
func (h *host) startAdding(ctx actor.Context, a *addition) {
	work, stop := context.WithCancel(context.Background())
	a.stop = stop
	w := &adding{ctx: work, addition: a, space: h.deps.Tensors, node: h.deps.Node}
	h.deps.Rim.Go(ctx.Self(), w.run)
}

func (h *host) onAdded(m *added) {
	m.addition.stop()
	for _, err := range m.errs {
		h.log.Warn("answers not added up", zap.String("job_id", m.addition.plan.GetStep().GetJob().GetId()), zap.Error(err))
	}
	h.state.added(m.addition, m.reply)
}

// stopAdding ends all additions, as the actor goes.
func (h *host) stopAdding() {
	for _, j := range h.state.jobs {
		if j.adding != nil && j.adding.stop != nil {
			j.adding.stop()
		}
	}
}
