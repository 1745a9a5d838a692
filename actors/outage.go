package actors

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// outage is --chaos store-down: the store refuses whatever a job writes, from
// when its first merge is to be stored, for a while.
type outage struct {
	rim    actorkit.Rim
	length time.Duration

	mu    sync.Mutex
	began time.Time // zero: not yet
}

// withOutage has the store fail an incarnation as its task's chaos says. One
// that goes on from a merge which the store has has had its outage.
func withOutage(rim actorkit.Rim, task *messages.TrainTask, vault train.Vault) train.Vault {
	length := time.Duration(task.GetOptions().GetChaos().GetStoreDownMs()) * time.Millisecond
	if length <= 0 || vault.From().GetModelVersion() > 0 {
		return vault
	}
	return refusedVault{vault, &outage{rim: rim, length: length}}
}

// refuse returns the store's error while it is down.
func (o *outage) refuse(starts bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.rim.Now()
	if o.began.IsZero() && starts {
		o.began = now
	}
	if o.began.IsZero() || now.Sub(o.began) >= o.length {
		return nil
	}
	return fault.New("actors.chaos", fault.Unavailable, "chaos has the store down for %v (--chaos store-down)", o.length)
}

type refusedVault struct {
	train.Vault
	outage *outage
}

// Save implements train.Vault.
func (v refusedVault) Save(ctx context.Context, st *messages.JobState, open func(context.Context, *messages.TensorRef) (plane.Blob, error)) error {
	if err := v.outage.refuse(st.GetModelVersion() > 0); err != nil {
		return err
	}
	return v.Vault.Save(ctx, st, open)
}

// End implements train.Vault.
func (v refusedVault) End(ctx context.Context, st *messages.JobState, result func(context.Context) error) error {
	if err := v.outage.refuse(true); err != nil {
		return err
	}
	return v.Vault.End(ctx, st, result)
}

// Beat implements train.Vault.
func (v refusedVault) Beat(ctx context.Context) error {
	if err := v.outage.refuse(false); err != nil {
		return err
	}
	return v.Vault.Beat(ctx)
}
