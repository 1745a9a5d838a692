package train

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

type restored struct {
	state *messages.JobState
	kept  bool // by a host; else it is the store's
	err   error
}

// takeUp takes up the latest state that there is.
func (j *job) takeUp() {
	if j.restoring.begun || j.ended != nil {
		return
	}
	j.restoring.begun = true
	w := &restoreWork{
		ctx: j.work, vault: j.vault, space: j.deps.Space, node: j.deps.Node,
		stored: j.vault.From(), prefix: j.key("restored-"), job: j.state.ref, n: j.state.parallelism(),
	}
	if isLater(j.restoring.kept, w.stored) {
		w.kept = j.restoring.kept
	}
	j.deps.Rim.Go(j.self, func() any {
		result := w.run()
		if w.ctx.Err() != nil {
			w.discard()
		}
		return result
	})
}

func (j *job) onRestored(ctx actor.Context, m *restored) {
	switch {
	case j.ended != nil:
	case m.err != nil:
		j.restoring.begun = false
		j.retryEffect(restore, m.err)
	default:
		j.failures = 0
		j.state.restoring = false
		if text := j.vault.Warning(); text != "" && !m.kept {
			j.state.warn(text)
		}
		if m.state != nil {
			j.state.restore(m.state, j.deps.Rim.Now())
			j.release(ctx, &messages.ReleaseTensors{Step: j.here(), Keep: j.keep()})
			j.log.Info("job goes on", zap.Uint32("epoch", m.state.GetEpoch()), zap.Uint32("round", m.state.GetRound()))
		}
		if j.state.sizing {
			j.askForSize(ctx)
		}
		j.announce(lastOf(j.state.before))
	}
}

// restoreWork takes a state up, ready to run off the actor.
type restoreWork struct {
	ctx    context.Context
	vault  Vault
	space  plane.Space
	node   string             // this one
	kept   *messages.JobState // whose tensors lie on hosts; nil: the stored one is no older
	stored *messages.JobState // nil: none
	prefix string             // of the keys of its tensors
	job    *messages.JobRef   // that takes it up
	n      uint32             // functions that there will be: states of others are not needed
}

func (w *restoreWork) run() *restored {
	st := w.trimmed(w.kept)
	kept := st != nil && w.complete(st) && w.bring(st)
	if !kept {
		var err error
		if st, err = w.fetch(w.trimmed(w.stored)); err != nil {
			return &restored{err: fmt.Errorf("take up the job's state: %w", err)}
		}
	}
	if w.ctx.Err() == nil { // else the tensors are another's by now
		w.sweep(st)
	}
	return &restored{state: st, kept: kept}
}

// discard removes what was fetched for a job that is not there any more.
func (w *restoreWork) discard() {
	for _, t := range append(Tensors(w.stored), Tensors(w.kept)...) {
		_ = w.space.Remove(w.keyOf(t)) // what stays goes with the process
	}
}

// keyOf is where a tensor of the stored state goes.
func (w *restoreWork) keyOf(t TensorPlace) string {
	return w.prefix + strings.TrimSuffix(t.Name, ".safetensors")
}

// trimmed returns a state of its own without what no function will start from.
func (w *restoreWork) trimmed(st *messages.JobState) *messages.JobState {
	st = proto.CloneOf(st)
	for _, refs := range byFunction(st) {
		refs.leave(w.n)
	}
	return st
}

// complete reports whether all tensors of a state can be had.
func (w *restoreWork) complete(st *messages.JobState) bool {
	for _, t := range Tensors(st) {
		blob, err := w.space.Open(w.ctx, wire.PlaneRef(t.Ref))
		if err != nil {
			return false
		}
		_ = blob.Close()
	}
	return true
}

// bring copies what is the job's own here, as an earlier incarnation may have been on
// another node, and names it so in the state. It reports whether all of it came.
func (w *restoreWork) bring(st *messages.JobState) bool {
	for _, t := range Tensors(st) {
		if !t.Own || t.Ref.GetNode() == w.node {
			continue
		}
		ref, err := w.copy(t, func() (io.ReadCloser, error) {
			blob, err := w.space.Open(w.ctx, wire.PlaneRef(t.Ref))
			if err != nil {
				return nil, err
			}
			return blobReader{io.NewSectionReader(blob, 0, blob.Size()), blob}, nil
		})
		if err != nil {
			return false
		}
		t.Set(ref)
	}
	return true
}

// blobReader reads a blob from its start, and closes it.
type blobReader struct {
	io.Reader
	io.Closer
}

// fetch copies the tensors of a stored state here, and names them so in it.
func (w *restoreWork) fetch(st *messages.JobState) (*messages.JobState, error) {
	for _, t := range Tensors(st) {
		ref, err := w.copy(t, func() (io.ReadCloser, error) { return w.vault.Open(w.ctx, t.Ref) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		t.Set(ref)
	}
	return st, nil
}

func (w *restoreWork) copy(t TensorPlace, open func() (io.ReadCloser, error)) (*messages.TensorRef, error) {
	key := w.keyOf(t)
	if err := w.space.Remove(key); err != nil { // of a try before this one
		return nil, err
	}
	from, err := open()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	draft, err := w.space.Create(key, int64(t.Ref.GetBytes()))
	if err != nil {
		return nil, err
	}
	defer draft.Abort()
	if _, err := io.Copy(draft, from); err != nil {
		return nil, fault.New("train.restore", fault.KindOf(err), "copy it here: %w", err)
	}
	ref, err := draft.Seal()
	return wire.TensorRef(ref), err
}

// sweep removes what earlier incarnations merged and the state does not name;
// the answers of functions are for hosts to remove.
func (w *restoreWork) sweep(st *messages.JobState) {
	needed := map[string]bool{}
	if st != nil {
		keysOf(st, needed)
	}
	var gone []string
	for _, key := range w.space.List(w.job.GetId() + "/") {
		if isMerged(key, w.job) && !needed[key] {
			gone = append(gone, key)
		}
	}
	_ = w.space.Remove(gone...) // at worst they stay until the job's end
}
