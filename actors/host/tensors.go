package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// Tensors is where the answers of a host's runner lie: its node's plane.Space.
type Tensors interface {
	Keys
	// Create and Open are those of plane.Space.
	Create(key string, size int64) (plane.Draft, error)
	Open(ctx context.Context, ref plane.Ref) (plane.Blob, error)
}

// Keys is what lies in a plane.Space, by its names.
type Keys interface {
	// List returns the keys that start with prefix.
	List(prefix string) []string
	// Remove frees keys; those that are not there are skipped.
	Remove(keys ...string) error
}

// The last part of an answer's key, and what is before it in that of a sum.
const (
	keyModel     = "model"
	keyOptimizer = "optimizer"
	keyResidual  = "residual" // what an encoded model lacks
	keyPlain     = "plain"    // a model before it is encoded
	keySum       = "sum-"
)

// answerKey names one tensor file of an attempt's answer:
//
//	<job>/<incarnation>/<epoch>-<round>-<function>-<attempt>-<nonce>/<part>
//
// The nonce tells apart two runs of one attempt, as when a host restarts.
func answerKey(ref *messages.AttemptRef, nonce uint64, part string) string {
	return fmt.Sprintf("%s/%d/%d-%d-%d-%d-%d/%s", ref.GetJob().GetId(), ref.GetJob().GetIncarnation(),
		ref.GetEpoch(), ref.GetRound(), ref.GetFunction(), ref.GetAttempt(), nonce, part)
}

// place in a job's course: (incarnation, epoch, round). Only one step of a
// round writes tensors, so the task is not needed.
type course [3]uint64

// parseAnswerKey returns where in its job's course an answer, or a sum of some, was made; ok is
// false for keys that are no answer's: those belong to somebody else.
func parseAnswerKey(key string) (c course, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || !slices.Contains([]string{keyModel, keyOptimizer, keyResidual, keyPlain, keySum + keyModel, keySum + keyOptimizer}, parts[3]) {
		return c, false
	}
	numbers := append([]string{parts[1]}, strings.Split(parts[2], "-")...)
	if len(numbers) != 6 {
		return c, false
	}
	for i, number := range numbers {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return c, false
		}
		if i < len(c) {
			c[i] = n
		}
	}
	return c, true
}

// incarnationOf is the one of its job that made a tensor, 0 for a key that is none.
func incarnationOf(key string) uint64 {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// release frees the answers that m lets go, and the copies of other nodes' tensors.
// What there is to free is read from the keys, not from what the host remembers,
// which a restart loses. A message that is late may free a copy that is wanted
// again: then it is fetched again.
func release(t Keys, m *messages.ReleaseTensors) error {
	step := m.GetStep()
	last := course{step.GetJob().GetIncarnation(), uint64(step.GetEpoch()), uint64(step.GetRound())}
	keep := map[string]bool{}
	for _, key := range m.GetKeep() {
		keep[key] = true
	}
	unwanted := func(key string) bool {
		key, copied := plane.Original(key)
		at, ok := parseAnswerKey(key)
		switch {
		case !ok && copied: // what a TrainJob merged
			return incarnationOf(key) <= last[0] && !keep[key]
		case !ok:
			return false
		case m.GetEverything():
			return at[0] <= last[0]
		}
		return slices.CompareFunc(at[:], last[:], cmp.Compare[uint64]) <= 0 && !keep[key]
	}
	var gone []string
	for _, key := range t.List(step.GetJob().GetId() + "/") {
		if unwanted(key) {
			gone = append(gone, key)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return t.Remove(gone...)
}
