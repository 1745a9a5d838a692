package scheduler

import (
	"slices"

	"github.com/troupe-ml/troupe/messages"
)

// maxEnded is how many ended jobs are remembered.
const maxEnded = 1000

// ending is what is remembered of a job that has ended.
type ending struct {
	id    string
	keys  []string // of all its lives
	phase messages.Phase
	seq   uint64 // of its last size

	after, incarnation uint64 // as of the job: no event of a later life is of these
	warnings           []string
}

// endings remembers how the last maxEnded jobs ended.
type endings struct {
	byID  map[string]ending
	order []string // ids, oldest first
}

func newEndings() *endings { return &endings{byID: map[string]ending{}} }

// get returns how a job ended, should it be remembered.
func (e *endings) get(id string) (ending, bool) {
	one, ok := e.byID[id]
	return one, ok
}

// add remembers an ending and returns the keys of those forgotten for it.
func (e *endings) add(one ending) (forgotten []string) {
	e.byID[one.id] = one
	e.order = append(e.order, one.id)
	for len(e.order) > maxEnded {
		forgotten = append(forgotten, e.byID[e.order[0]].keys...)
		delete(e.byID, e.order[0])
		e.order = e.order[1:]
	}
	return forgotten
}

// take returns how a job ended, and forgets it.
func (e *endings) take(id string) ending {
	one, ok := e.byID[id]
	if ok {
		delete(e.byID, id)
		e.order = slices.DeleteFunc(e.order, func(other string) bool { return other == id })
	}
	return one
}
