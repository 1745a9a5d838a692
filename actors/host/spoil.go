package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// sabotage has the outputs of an attempt spoilt, as chaos asks for. Damage hits
// the optimizer state, if there is one, as often as the model.
func (x *execution) sabotage(ctx context.Context, s functions.Sabotage, model, optimizer *output, hasOptimizer bool) {
	space := x.executor.Space
	if s.NaN {
		model.spoil = func(ref plane.Ref) (plane.Ref, error) { return spoil(ctx, space, ref, x.key("spoilt"), s.At) }
	}
	if s.Corrupt {
		victim := model
		if hasOptimizer && s.Damage&1 == 1 {
			victim = optimizer
		}
		victim.damage = func(ref plane.Ref) (plane.Ref, error) { return damage(ctx, space, ref, x.key("damaged"), s.Damage) }
	}
}

// spoil copies the state dict that ref names to key, with a NaN in the place of
// one value: of the first tensor of floats, the value at the share `at` of it.
// So the NaN really lies in the bytes that are checked, in whichever space and
// whoever wrote them. A dict without floats cannot be spoilt, nor one that is
// none: ref is returned.
func spoil(ctx context.Context, space plane.Space, ref plane.Ref, key string, at float64) (plane.Ref, error) {
	return rewrite(ctx, space, ref, key, func(blob plane.Blob) map[int64][]byte {
		offset, nan := nanFor(blob, at)
		if len(nan) == 0 {
			return nil
		}
		return map[int64][]byte{offset: nan}
	})
}

// nanFor returns where in a state dict a NaN is to lie, and its bytes; none
// where there is no place for it.
func nanFor(blob plane.Blob, at float64) (offset int64, nan []byte) {
	layout, err := tensor.ReadLayout(blob, blob.Size())
	if err != nil {
		return 0, nil
	}
	for _, e := range layout.Entries {
		if n := e.Elements(); e.DType.IsFloat() && n > 0 {
			index := min(int64(at*float64(n)), n-1)
			one := tensor.New(tensor.Spec{Name: e.Name, DType: e.DType}, []float64{math.NaN()})
			return e.Offset + index*e.DType.Size(), one.Data
		}
	}
	return 0, nil
}

// mostDamaged bounds the bytes that damage changes.
const mostDamaged = 8

// damage copies what ref names to key, with 1 to mostDamaged bytes changed as
// drawn: of the header, of the values, or anywhere. Where it is the values, the
// copy is a sound state dict, often a finite one.
func damage(ctx context.Context, space plane.Space, ref plane.Ref, key string, drawn uint64) (plane.Ref, error) {
	return rewrite(ctx, space, ref, key, func(blob plane.Blob) map[int64][]byte {
		draw := newPCG(drawn)
		lo, hi := int64(0), blob.Size()
		switch header := headerOf(blob); draw.next() % 3 {
		case 0:
			hi = header
		case 1:
			lo = header
		}
		if lo >= hi { // no values
			lo, hi = 0, blob.Size()
		}
		changes := map[int64][]byte{}
		for range 1 + draw.next()%mostDamaged {
			var b [1]byte
			at := lo + int64(draw.next()%uint64(max(hi-lo, 1)))
			if _, err := blob.ReadAt(b[:], at); err == nil { // else there is none
				changes[at] = []byte{b[0] ^ byte(1+draw.next()%255)}
			}
		}
		return changes
	})
}

// headerOf returns the length of a state dict's header, the 8 bytes that say so
// included; at most the size of the blob.
func headerOf(blob plane.Blob) int64 {
	var length [8]byte
	_, _ = blob.ReadAt(length[:], 0) // one that is shorter has no header
	return int64(min(binary.LittleEndian.Uint64(length[:]), uint64(max(blob.Size()-8, 0)))) + min(8, blob.Size())
}

// rewrite copies what ref names to key, with other bytes at the offsets that
// choose returns, which do not overlap. Where it returns none, ref is returned.
func rewrite(ctx context.Context, space plane.Space, ref plane.Ref, key string, choose func(plane.Blob) map[int64][]byte) (plane.Ref, error) {
	blob, err := space.Open(ctx, ref)
	if err != nil {
		return ref, err
	}
	defer func() { _ = blob.Close() }()
	changes := choose(blob)
	if len(changes) == 0 {
		return ref, nil
	}
	draft, err := space.Create(key, blob.Size())
	if err != nil {
		return ref, err
	}
	var parts []io.Reader
	at := int64(0)
	for _, offset := range slices.Sorted(maps.Keys(changes)) {
		parts = append(parts, io.NewSectionReader(blob, at, offset-at), bytes.NewReader(changes[offset]))
		at = offset + int64(len(changes[offset]))
	}
	parts = append(parts, io.NewSectionReader(blob, at, blob.Size()-at))
	if _, err := io.Copy(draft, io.MultiReader(parts...)); err != nil {
		_ = draft.Abort()
		return ref, err
	}
	return draft.Seal()
}
