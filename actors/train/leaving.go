package train

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// bringAtOnce is how many tensors of nodes that leave are fetched side by side.
const bringAtOnce = 4

// brought is how fetching a tensor of a node that leaves has ended.
type brought struct {
	from, to *messages.TensorRef // to: nil unless it is here
	err      error
}

// bringing is what there is to do about nodes that leave.
type bringing struct {
	running map[string]bool // keys that are being fetched
	failed  map[string]bool // keys that could not be, until the next tick
	here    map[string]bool // keys of the job's own: what was fetched, and is not known to be needless
	told    map[string]bool // nodes that were told that they may go, until the next tick
	late    []*brought      // answers that a merge works on, which is not to be disturbed
}

func newBringing() bringing {
	return bringing{running: map[string]bool{}, failed: map[string]bool{}, here: map[string]bool{}, told: map[string]bool{}}
}

// again has what failed be tried again, and nodes be told again.
func (b *bringing) again() {
	clear(b.failed)
	clear(b.told)
}

// helpLeave takes over what lies on nodes that are about to leave, and lets those
// go that have nothing more that the job needs.
func (j *job) helpLeave(ctx actor.Context) {
	leaving := j.state.leaving()
	if len(leaving) == 0 || j.ended != nil {
		return
	}
	for _, ref := range j.state.departing() {
		if key := ref.GetKey(); len(j.bringing.running) < bringAtOnce && !j.bringing.running[key] && !j.bringing.failed[key] {
			j.bringing.running[key] = true
			w := &bringWork{ctx: j.work, space: j.deps.Space, from: ref, key: j.key(localName(ref.GetKey()))}
			j.produce(w.run, w.key)
		}
	}
	for _, node := range leaving {
		if !j.bringing.told[node] && !j.needs(node) {
			j.bringing.told[node] = true
			actorkit.Send(ctx, j.deps.Host(node), &messages.HostVacated{Job: j.state.ref, Node: node})
		}
	}
}

// needs reports whether the job has something running on a node, or lacks
// something that lies there.
func (j *job) needs(node string) bool {
	lies := func(ref *messages.TensorRef) bool { return ref.GetNode() == node }
	if j.state.isAt(node) || slices.ContainsFunc(j.state.departing(), lies) {
		return true
	}
	return j.saver.running != nil && slices.ContainsFunc(Tensors(j.saver.running), func(t TensorPlace) bool { return lies(t.Ref) })
}

func (j *job) onBrought(ctx actor.Context, m *brought) {
	delete(j.bringing.running, m.from.GetKey())
	switch {
	case j.ended != nil:
		if m.to != nil {
			j.remove([]string{m.to.GetKey()})
		}
	case m.err != nil:
		j.bringing.failed[m.from.GetKey()] = true
		j.log.Warn("a tensor of a node that leaves is not here", zap.String("node", m.from.GetNode()), zap.String("key", m.from.GetKey()), zap.Error(m.err))
	default:
		j.bringing.here[m.to.GetKey()] = true
		if j.state.merges(m.from) {
			j.bringing.late = append(j.bringing.late, m)
			return
		}
		before := j.state.marked
		if j.state.rehome(m.from, m.to); j.state.marked != before && len(j.bringing.running) == 0 {
			j.handOn(ctx, before)
		}
		j.forgetBrought()
	}
}

// unlate has the job find what was taken over of answers that a merge worked on,
// once it does not any more.
func (j *job) unlate() {
	for _, m := range j.bringing.late {
		j.state.rehome(m.from, m.to)
	}
	j.bringing.late = nil
	j.forgetBrought()
}

// forgetBrought removes what was taken over and nothing needs any more.
func (j *job) forgetBrought() {
	if len(j.bringing.here) == 0 {
		return
	}
	needed := j.held()
	keysOf(j.state.marked, needed)
	for _, m := range j.bringing.late {
		needed[m.to.GetKey()] = true
	}
	need := func(ref *messages.TensorRef) { needed[ref.GetKey()] = true }
	j.state.eachRef(need)
	j.state.merging.eachAnswer(need)
	var gone []string
	for key := range j.bringing.here {
		if !needed[key] {
			gone = append(gone, key)
			delete(j.bringing.here, key)
		}
	}
	if len(gone) > 0 {
		j.remove(gone)
	}
}

// localName is what the job calls its own copy of a key.
func localName(key string) string {
	_, rest, _ := strings.Cut(key, "/")
	return "answer-" + strings.ReplaceAll(rest, "/", "-")
}

// bringWork fetches a tensor for good, ready to run off the actor.
type bringWork struct {
	ctx   context.Context
	space plane.Space
	from  *messages.TensorRef
	key   string
}

func (w *bringWork) run() any {
	to, err := w.copy()
	return &brought{from: w.from, to: to, err: err}
}

func (w *bringWork) copy() (*messages.TensorRef, error) {
	from := wire.PlaneRef(w.from)
	blob, err := w.space.Open(w.ctx, from)
	if err != nil {
		return nil, err
	}
	ref, err := copyHere(w.space, w.key, blob, "train.bring")
	_ = blob.Close()
	_ = w.space.Remove(plane.CopyKey(from)) // one is enough
	return ref, err
}

// copyHere makes a blob a key of the node's own.
func copyHere(space plane.Space, key string, blob plane.Blob, op string) (*messages.TensorRef, error) {
	draft, err := space.Create(key, blob.Size())
	if err != nil {
		return nil, err
	}
	defer draft.Abort()
	if _, err := io.Copy(draft, io.NewSectionReader(blob, 0, blob.Size())); err != nil {
		return nil, fault.New(op, fault.KindOf(err), "copy %s here: %w", key, err)
	}
	ref, err := draft.Seal()
	return wire.TensorRef(ref), err
}

// leaving returns the nodes that are about to go, but for the job's own, where
// there is nothing to take over.
func (s *state) leaving() []string {
	all := s.size.GetLeaving()
	if !slices.Contains(all, s.node) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(node string) bool { return node == s.node })
}

func (s *state) isLeaving(node string) bool {
	return node != s.node && slices.Contains(s.size.GetLeaving(), node)
}

// departing returns what the job needs of nodes that are about to go, and can take
// over now: the optimizer states first, which cannot be made again. A merge reads
// for itself what it needs.
func (s *state) departing() []*messages.TensorRef {
	var out []*messages.TensorRef
	seen := map[string]bool{}
	s.eachRef(func(ref *messages.TensorRef) {
		if key := ref.GetKey(); s.isLeaving(ref.GetNode()) && !seen[key] {
			seen[key] = true
			out = append(out, ref)
		}
	})
	return out
}

// eachRef calls do with each tensor that may lie on a node of a function and that
// the job needs beside a merge, optimizer states first.
func (s *state) eachRef(do func(*messages.TensorRef)) {
	marked := byFunction(s.marked)
	for _, refs := range append(marked[:], s.optimizers, s.residuals) {
		for _, function := range slices.Sorted(maps.Keys(refs)) {
			do(refs[function])
		}
	}
	if s.step == nil {
		return
	}
	for _, a := range s.step.work {
		for _, ref := range []*messages.TensorRef{a.optimizer, a.residual} {
			if !a.over() && ref != nil {
				do(ref)
			}
		}
	}
	s.step.eachAnswer(do)
}

// partsOf returns the tensors of an answer, the model last: without the others it
// is no use.
func partsOf(a *messages.Invoked) []*messages.TensorRef {
	return slices.DeleteFunc([]*messages.TensorRef{a.GetOptimizer(), a.GetResidual(), a.GetModel()}, func(ref *messages.TensorRef) bool { return ref == nil })
}

// eachAnswer calls do with each tensor of a step's accepted answers.
func (s *step) eachAnswer(do func(*messages.TensorRef)) {
	if s == nil {
		return
	}
	for _, a := range s.answers() {
		for _, ref := range partsOf(a) {
			do(ref)
		}
	}
}

// isAt reports whether something of the job runs on a node, or is being merged
// that lies there, or may be found there by a job that is being taken up.
func (s *state) isAt(node string) bool {
	at := s.restoring || s.step != nil && s.step.running[node] > 0
	s.merging.eachAnswer(func(ref *messages.TensorRef) { at = at || ref.GetNode() == node })
	return at
}

// merges reports whether a tensor is part of an answer that is being merged.
func (s *state) merges(ref *messages.TensorRef) (found bool) {
	s.merging.eachAnswer(func(part *messages.TensorRef) {
		found = found || sameTensor(part, ref)
	})
	return found
}

// sameTensor reports whether two refs are of one key of one node.
func sameTensor(a, b *messages.TensorRef) bool {
	return a.GetKey() == b.GetKey() && a.GetNode() == b.GetNode()
}

// rehome has the job find a tensor where it is now. What a merge works on stays as
// it is.
func (s *state) rehome(from, to *messages.TensorRef) {
	is := func(ref *messages.TensorRef) bool { return sameTensor(ref, from) }
	swap := func(places ...**messages.TensorRef) {
		for _, ref := range places {
			if is(*ref) {
				*ref = to
			}
		}
	}
	for _, refs := range []perFunction{s.optimizers, s.residuals} {
		refs.swap(is, to)
	}
	if marked := byFunction(s.marked); marked[0].has(is) || marked[1].has(is) {
		s.marked = proto.CloneOf(s.marked) // others have it
		for _, refs := range byFunction(s.marked) {
			refs.swap(is, to)
		}
	}
	if s.step == nil {
		return
	}
	for _, a := range s.step.work {
		swap(&a.optimizer, &a.residual)
		if slices.ContainsFunc(partsOf(a.answer), is) {
			a.answer = proto.CloneOf(a.answer) // its host may tell it again
			swap(&a.answer.Optimizer, &a.answer.Residual, &a.answer.Model)
		}
	}
}

// has reports whether one is so.
func (p perFunction) has(is func(*messages.TensorRef) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p)), is)
}

// swap puts another tensor in the place of those that are so.
func (p perFunction) swap(is func(*messages.TensorRef) bool, to *messages.TensorRef) {
	for function, ref := range p {
		if is(ref) {
			p[function] = to
		}
	}
}

// hastened opens a second attempt elsewhere at each assignment that runs on a node
// which is about to go, while slots are free that nothing waits for: the first
// answer counts, as with stragglers.
func (s *state) hastened(now time.Time) []*attempt {
	return s.second(now, func(a *assignment) bool { return s.isLeaving(a.open[0].invoke.GetNode()) })
}
