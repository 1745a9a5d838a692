package train

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

const (
	// planPatience is how long a host that was sent a plan may say nothing, and
	// planRate at how many bytes a second of answers it has to add up beside that
	// long: then the answers themselves are fetched.
	planPatience = 5 * time.Second
	planRate     = 20e6
	// planSubtrees is how many sums a host makes at most, the largest ones: so plan
	// and reply fit into a message. (Of 65,536 answers a plan takes 0.8 MB.)
	planSubtrees = 256
)

// sums is what hosts add up of the round that is being merged.
type sums struct {
	seq   uint64            // of their plans
	asked map[string]*asked // who has yet to say what it has, by node
	have  []sum
	raw   bool // the round is merged without, since that failed
}

// asked is a host that adds up answers.
type asked struct {
	plan  *messages.MergePlan
	heard time.Time // of the host, or when it was sent the plan
	until time.Time // when it should have ended
}

// sum is what a host has added up.
type sum struct {
	functions []uint32
	optimizer bool // of states, not models
	ref       *messages.TensorRef
}

// sizes are those of sums of answers, in bytes; 0: not known.
type sizes struct{ model, optimizer uint64 }

// addsUp reports whether hosts may add up what is to be merged: it is a mean, and
// there is more than one answer on some other node.
func (s *state) addsUp() bool {
	strategy, err := tensor.ParseStrategy(s.opts.GetMerge())
	if err != nil || strategy.Kind == tensor.TrimmedMean || strategy.Kind == tensor.Median {
		return false
	}
	there := map[string]int{}
	for _, a := range s.merging.answers() {
		if node := a.GetModel().GetNode(); node != s.node {
			if there[node]++; there[node] > 1 {
				return true
			}
		}
	}
	return false
}

// knowsSizes reports whether measuring would tell more of the sizes of sums.
func (s *state) knowsSizes() bool {
	return s.wide.model > 0 && (s.wide.optimizer > 0 || s.shared == nil)
}

// planSums decides what hosts add up before the merge, and reports whether that is
// anything. A node that is gone, or leaves, is not asked.
func (s *state) planSums(now time.Time) bool {
	s.plans++
	s.sums = &sums{seq: s.plans, asked: map[string]*asked{}}
	strategy, _ := tensor.ParseStrategy(s.opts.GetMerge())
	for node, trees := range s.subtrees((*messages.Invoked).GetModel, s.wide.model, strategy.Unweighted) {
		s.ask(node, now).plan.Models = trees
	}
	if s.opts.GetOptimizerState() == "average" {
		for node, trees := range s.subtrees((*messages.Invoked).GetOptimizer, s.wide.optimizer, strategy.Unweighted) {
			s.ask(node, now).plan.Optimizers = trees
		}
	}
	for _, a := range s.merging.answers() {
		if at := s.sums.asked[a.GetModel().GetNode()]; at != nil {
			at.until = at.until.Add(time.Duration(float64(a.GetModel().GetBytes()+a.GetOptimizer().GetBytes()) / planRate * float64(time.Second)))
		}
	}
	return len(s.sums.asked) > 0
}

// ask returns the plan of a node.
func (s *state) ask(node string, now time.Time) *asked {
	a := s.sums.asked[node]
	if a == nil {
		a = &asked{heard: now, until: now.Add(planPatience), plan: &messages.MergePlan{
			Step: s.merging.ref, Seq: s.sums.seq, Parallelism: s.merging.plan.GetParallelism(),
			Reference: s.merging.plan.GetModel(), Compress: s.merging.plan.GetCompress(), Clip: s.opts.GetClip(),
		}}
		s.sums.asked[node] = a
	}
	return a
}

// subtrees returns, by node, the largest nodes of the tree over function ids whose
// answers all lie there, where what they add up to has fewer bytes than they have.
func (s *state) subtrees(part func(*messages.Invoked) *messages.TensorRef, wide uint64, unweighted bool) map[string][]*messages.Subtree {
	if wide == 0 {
		return nil
	}
	answers := slices.DeleteFunc(s.merging.answers(), func(a *messages.Invoked) bool { return part(a) == nil })
	ids, weights := make([]int, len(answers)), make([]float64, len(answers))
	for i, a := range answers {
		ids[i], weights[i] = int(a.GetAttempt().GetFunction()), weightOf(a, unweighted)
	}
	weights = tensor.ScaledWeights(weights)
	pays := func(first, end int) bool {
		node, bytes := part(answers[first]).GetNode(), uint64(0)
		if node == s.node || s.isGone(node) || s.isLeaving(node) {
			return false
		}
		for _, a := range answers[first:end] {
			if part(a).GetNode() != node {
				return false
			}
			bytes += part(a).GetBytes()
		}
		return wide < bytes
	}
	found := map[string][]*messages.Subtree{}
	for _, t := range tensor.Subtrees(int(s.merging.plan.GetParallelism()), ids, pays) {
		tree := &messages.Subtree{Weights: weights[t[0]:t[1]]}
		for _, a := range answers[t[0]:t[1]] {
			tree.Functions = append(tree.Functions, a.GetAttempt().GetFunction())
			tree.Attempts = append(tree.Attempts, a.GetAttempt().GetAttempt())
		}
		node := part(answers[t[0]]).GetNode()
		found[node] = append(found[node], tree)
	}
	for node, trees := range found {
		slices.SortStableFunc(trees, func(a, b *messages.Subtree) int { return cmp.Compare(len(b.GetFunctions()), len(a.GetFunctions())) })
		found[node] = trees[:min(len(trees), planSubtrees)]
	}
	return found
}

// weightOf is how much an answer counts in a mean.
func weightOf(a *messages.Invoked, unweighted bool) float64 {
	if unweighted {
		return 1
	}
	return float64(a.GetSamples())
}

// summed takes what a host says of its plan, and reports whether it is news that
// no host is at work any more.
func (s *state) summed(m *messages.MergePlanReply, now time.Time) bool {
	if s.sums == nil || m.GetSeq() != s.sums.seq || s.sums.asked[m.GetNode()] == nil {
		return false
	}
	a := s.sums.asked[m.GetNode()]
	a.heard = now
	if !m.GetDone() {
		return false
	}
	take := func(trees []*messages.Subtree, refs []*messages.TensorRef, optimizer bool) {
		for i, ref := range refs[:min(len(refs), len(trees))] {
			if ref.GetKey() != "" && ref.GetNode() == m.GetNode() {
				s.sums.have = append(s.sums.have, sum{functions: trees[i].GetFunctions(), optimizer: optimizer, ref: ref})
			}
		}
	}
	take(a.plan.GetModels(), m.GetModels(), false)
	take(a.plan.GetOptimizers(), m.GetOptimizers(), true)
	delete(s.sums.asked, m.GetNode())
	return len(s.sums.asked) == 0
}

// tired gives up hosts that say nothing, take too long, or are gone, and reports
// whether it is news that no host is at work any more. Their answers are fetched
// as they are, if they can be.
func (s *state) tired(now time.Time) bool {
	if s.sums == nil || len(s.sums.asked) == 0 {
		return false
	}
	maps.DeleteFunc(s.sums.asked, func(node string, a *asked) bool {
		return now.Sub(a.heard) >= planPatience || !now.Before(a.until) || s.isGone(node)
	})
	return len(s.sums.asked) == 0
}
