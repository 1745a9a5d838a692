package actors

import (
	"context"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/messages"
)

// Merges is what functions wait on that have finished their round.
type Merges = merges

// NewMerges returns one that knows of no job.
func NewMerges() *Merges { return newMerges() }

// Add takes in events.
func (m *merges) Add(events []*messages.JobEvent) { m.add(events) }

// Wait is a remote.Next.
func (m *merges) Wait(ctx context.Context, ref remote.Ref) error { return m.wait(ctx, ref) }
