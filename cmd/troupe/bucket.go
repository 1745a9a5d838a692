package main

import (
	"context"
	"errors"
	"sync"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	stores "github.com/troupe-ml/troupe/store/remote"
)

// bucket is the store in which a node works that has joined.
type bucket struct {
	store.Store
	shared bool   // it is the node's own that is the leader's too; else that is reached through the leader
	id     string // of the store
}

// chooseBucket is openBucket, and decides what becomes of a store of this node that
// is not the leader's: one that people have named has to be.
func (s *session) chooseBucket(ctx context.Context, url string, named bool, leaders store.Store) (bucket, error) {
	b, why, err := openBucket(ctx, url, leaders)
	switch {
	case err != nil:
		return bucket{}, err
	case why != nil && named:
		return bucket{}, why
	case why != nil && fault.KindOf(why) != fault.Conflict:
		s.tell("this node works through the leader's store, since its own was not to be looked at: " + why.Error())
	}
	return b, nil
}

// openBucket opens the store at a URL if it is the one of the leader, which leaders
// reaches; else it is leaders, and why says why: Conflict, it is another one, or
// what is wrong with it. Unavailable: the leader does not say.
func openBucket(ctx context.Context, url string, leaders store.Store) (b bucket, why, err error) {
	id, err := store.ID(ctx, leaders)
	if err != nil {
		return bucket{}, nil, err
	}
	through := bucket{leaders, false, id}
	own, err := store.Open(ctx, url)
	if err != nil {
		return through, err, nil
	}
	mine, err := store.KnownID(ctx, own)
	if err != nil {
		return through, errors.Join(err, own.Close()), nil
	}
	if mine == id {
		same, err := stores.Shares(ctx, own, leaders)
		if err != nil {
			return bucket{}, nil, errors.Join(err, own.Close())
		}
		if same {
			return bucket{own, true, id}, nil, nil
		}
	}
	return through, otherStore(url, mine, id), own.Close()
}

// otherStore is the error about a store that was named and is not the leader's.
func otherStore(url, mine, leaders string) error {
	const op, remedy = "up.store", "give the URL by which this node reaches the leader's store, or leave --store out: it then works through the leader"
	switch mine {
	case "":
		return fault.New(op, fault.Conflict, "there is no store at %s yet, and the leader's has the id %s: %s", url, leaders, remedy)
	case leaders:
		return fault.New(op, fault.Conflict, "the store at %s is a copy of the leader's: both have the id %s, and what is written in one does not show in the other: %s", url, leaders, remedy)
	}
	return fault.New(op, fault.Conflict, "the store at %s is not the leader's: its id is %s, the leader's is %s: %s", url, mine, leaders, remedy)
}

// watchBucket returns what is closed once the leader was started again on another
// store, in which this node must not go on; stop ends the looking.
func watchBucket(ctx context.Context, c *cluster.Cluster, b bucket, leaders store.Store) (moved <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	restarted, gone := make(chan struct{}, 1), make(chan struct{})
	boot := ""
	unwatch := c.Watch(func(members []cluster.Member) {
		for _, m := range members {
			if !m.Leader || m.Boot == boot {
				continue
			}
			if boot = m.Boot; len(restarted) == 0 {
				restarted <- struct{}{}
			}
		}
	})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-restarted:
			}
			same := true
			err := trust.Insist(ctx, func(error) {}, func() (err error) {
				same, err = b.still(ctx, leaders)
				return err
			})
			if err == nil && !same {
				close(gone)
				return
			}
		}
	})
	return gone, func() {
		unwatch()
		cancel()
		looking.Wait()
	}
}

// still reports whether the leader has the store in which this node works.
func (b bucket) still(ctx context.Context, leaders store.Store) (bool, error) {
	if b.shared {
		return stores.Shares(ctx, b.Store, leaders)
	}
	id, err := store.ID(ctx, leaders)
	return id == b.id, err
}

// storeMoved is why a life of a node ends.
const storeMoved = "the leader was started again on another store: this node begins anew, with that one"
