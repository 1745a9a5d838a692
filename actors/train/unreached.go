package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// unreached is why a tensor of the job that lies on another node cannot be stored:
// the store is well.
type unreached struct {
	node string
	err  error
}

func (u *unreached) Error() string { return u.err.Error() }

func (u *unreached) Unwrap() error { return u.err }

// unreachedOf returns what kept a save from a tensor of another node, nil for
// nothing.
func unreachedOf(err error) *unreached {
	u, _ := errors.AsType[*unreached](err)
	return u
}

// open opens a tensor of the job, wherever it lies. It is called off the actor.
func (j *job) open(ctx context.Context, ref *messages.TensorRef) (plane.Blob, error) {
	if ref.GetNode() == j.deps.Node {
		return j.deps.Space.Open(ctx, wire.PlaneRef(ref))
	}
	j.waitsFor.Store(&ref.Node)
	defer j.waitsFor.Store(nil)
	blob, err := j.deps.Space.Open(ctx, wire.PlaneRef(ref))
	if err != nil {
		return nil, &unreached{ref.GetNode(), err}
	}
	return blob, nil
}

// openNow is open for who does not wait for a node that is not there.
func (j *job) openNow(ctx context.Context, ref *messages.TensorRef) (plane.Blob, error) {
	if node := ref.GetNode(); node != j.deps.Node && j.deps.Host(node) == nil {
		return nil, &unreached{node, fault.New("train.open", fault.Unavailable, "the node does not answer")}
	}
	return j.open(ctx, ref)
}

// leaveOut has what is stored of the job do without the states on a node that
// does not give them, and says so. It reports whether there were any.
func (j *job) leaveOut(u *unreached) bool {
	functions := j.state.unmark(func(node string) bool { return node == u.node })
	if len(functions) == 0 {
		return false
	}
	j.state.warn(fmt.Sprintf("node %q does not give the states of functions that lie there: %v; what is kept of the job goes without them: resumed from that, functions %s start from none",
		u.node, u.err, listed(functions)))
	return true
}

// unmark takes the states on nodes of a kind out of the point from which the job
// would go on, and returns whose they are.
func (s *state) unmark(is func(node string) bool) (functions []uint32) {
	whose := map[uint32]bool{}
	for _, refs := range byFunction(s.marked) {
		for function, ref := range refs {
			if is(ref.GetNode()) {
				whose[function] = true
			}
		}
	}
	if len(whose) == 0 {
		return nil
	}
	s.marked = proto.CloneOf(s.marked)
	for _, refs := range byFunction(s.marked) {
		maps.DeleteFunc(refs, func(_ uint32, ref *messages.TensorRef) bool { return is(ref.GetNode()) })
	}
	functions = sorted(whose)
	s.marked.Bereft = slices.Compact(slices.Sorted(slices.Values(append(s.marked.GetBereft(), functions...))))
	return functions
}

// sorted returns a set of functions in their order.
func sorted(set map[uint32]bool) []uint32 { return slices.Sorted(maps.Keys(set)) }

// mostListed bounds how many functions a text names.
const mostListed = 10

// listed names functions for people.
func listed(functions []uint32) string {
	var texts []string
	for i, f := range functions {
		if i == mostListed {
			texts = append(texts, fmt.Sprintf("and %d more", len(functions)-i))
			break
		}
		texts = append(texts, fmt.Sprint(f))
	}
	return strings.Join(texts, ", ")
}
