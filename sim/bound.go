package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// course is how far a job has come, as its hosts see it.
type course struct {
	step    *messages.AttemptRef // the latest that anything ran of
	n, last uint32               // N of the latest round, and of the one before
	runs    int                  // attempts of it that began
	inits   int                  // attempts at the first model that began
	running map[*messages.AttemptRef]bool
}

// began notes that an attempt runs.
func (r *Runner) began(inv *messages.Invoke) {
	ref := inv.GetAttempt()
	c := r.courses[ref.GetJob().GetId()]
	if c == nil {
		c = &course{running: map[*messages.AttemptRef]bool{}}
		r.courses[ref.GetJob().GetId()] = c
	}
	if c.step == nil || actorkit.CompareSteps(ref, c.step) > 0 {
		c.step, c.runs = ref, 0
		if ref.GetTask() == messages.Task_TASK_TRAIN {
			c.n, c.last = inv.GetPlan().GetParallelism(), c.n
		}
	}
	if actorkit.CompareSteps(ref, c.step) == 0 {
		c.runs++
	}
	if ref.GetTask() == messages.Task_TASK_INIT {
		c.inits++
	}
	c.running[ref] = true
}

func (r *Runner) ended(inv *messages.Invoke) {
	delete(r.courses[inv.GetAttempt().GetJob().GetId()].running, inv.GetAttempt())
}

// CheckScratch says which job has more in scratch than it may. With N the
// greater of this round's and the last's, a job may have:
//   - N answers, and one more for each attempt beyond the first of an assignment
//   - 2N optimizer states, in and out, and again one more for each such attempt;
//     as many residuals
//   - N sums, half as many of models and of optimizer states as there are at most,
//     and those of a TrainJob that died before it had merged them
//   - 2 reference models, the new one and the old one; more of the first for
//     each attempt beyond the first at it, until there is a merged one
//   - 1 reference model more where the best one is kept
//   - 1 momentum of the outer optimizer, and while a merge runs the new one
//   - whatever attempts of earlier rounds still write that have yet to end
//   - N optimizer states more where there are several nodes: of a checkpoint that
//     was being tried again, since a node had gone, as the next merge was done
//
// It is to be called between two moments of virtual time, when no merge runs:
// what one has made superfluous goes within the moment, the old reference model
// too, unless ReleaseTensors is lost. A TrainJob that died while it merged leaves
// what it had made until the next incarnation is under way.
func (c *Company) CheckScratch() error {
	for id, at := range c.Runner.courses {
		late, runs := 0, 0
		for ref := range at.running {
			if actorkit.CompareSteps(ref, at.step) < 0 {
				late++
			}
		}
		if at.step.GetTask() == messages.Task_TASK_TRAIN {
			runs = at.runs // N and the attempts beyond
		}
		held := c.held(id)
		n, first, merged, momentum := int(max(at.n, at.last)), 0, 1, 1
		stored := 0
		if len(c.nodes) > 0 {
			stored = n
		}
		if c.twice[id] {
			merged++
		}
		torn := !c.lives(at.step.GetJob())
		if torn {
			merged, momentum = merged+1, momentum+1
		}
		if held.Merged == 0 || torn {
			first = at.inits
		}
		if held.Answers > runs+late || max(held.Optimizers, held.Residuals) > n+runs+late+stored || held.First > first+late || held.Sums > n+late || held.Merged > merged || held.Momentum > momentum {
			return fmt.Errorf("job %s has %+v in scratch; N is %d, %d attempts of this round have begun and %d of earlier ones run: %v",
				id, held, n, runs, late, c.Space.List(id+"/"))
		}
	}
	return nil
}

// held adds up what a job has on the nodes that are there. One that was cut off
// has not heard what it may let go of, and what one has that is about to leave goes
// with it, as that of the node that leads has while its process is none.
func (c *Company) held(id string) Held {
	var sum Held
	if !c.away {
		sum = c.Space.Held(id)
	}
	for _, n := range c.Nodes() {
		if n.deaf || n.leaves {
			continue
		}
		h := n.Space.Held(id)
		sum.Answers += h.Answers
		sum.Optimizers += h.Optimizers
		sum.Residuals += h.Residuals
		sum.Sums += h.Sums
		sum.First += h.First
		sum.Merged += h.Merged
		sum.Momentum += h.Momentum
	}
	return sum
}

// lives reports whether the TrainJob of an incarnation does.
func (c *Company) lives(ref *messages.JobRef) bool {
	name := fmt.Sprintf("/%s.%d", ref.GetId(), ref.GetIncarnation())
	return slices.ContainsFunc(c.Jobs(), func(pid *actor.PID) bool { return strings.HasSuffix(pid.GetId(), name) })
}
