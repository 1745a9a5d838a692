package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	stores "github.com/troupe-ml/troupe/store/remote"
)

// leavePatience is how long a node that is to end waits for others to take over
// what they need of it.
const leavePatience = 10 * time.Second

// upJoined is a node of somebody else's cluster until a signal comes. One that was
// put out, as it did not answer for too long, comes back as another life.
func (s *session) upJoined(local config.Node, tlsDir string, f *clusterFlags, log *zap.Logger) error {
	ctx, release := s.untilSignal()
	defer release()
	id, err := s.identify(ctx, tlsDir, f)
	if err != nil || ctx.Err() != nil {
		return quiet(ctx, err)
	}
	defer id.Close()
	for lived := false; ; {
		began, again, err := s.live(ctx, id, local, f, log)
		switch lost := lived && !began && fault.KindOf(err) == fault.Unavailable; {
		case lost && ctx.Err() == nil: // it was one of them, and is again once it reaches them
		case err != nil || !again:
			return quiet(ctx, err)
		}
		lived = lived || began
	}
}

// identify joins, if need be, with patience.
func (s *session) identify(ctx context.Context, tlsDir string, f *clusterFlags) (*trust.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	return s.joins(ctx, tlsDir, f)
}

// live is one life of a node: began that the others have seen it, again that it was
// put out, and there is to be another one.
func (s *session) live(ctx context.Context, id *trust.Identity, local config.Node, f *clusterFlags, log *zap.Logger) (began, again bool, err error) {
	patience, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	p := &peers{}
	leader, _ := id.Leader()
	leads := &following{}
	c, err := cluster.Start(patience, cluster.Config{
		Log: log, Identity: id, Handler: p, Listen: joinedListen(f, leader), Advertise: f.Advertise,
		Roles: []string{hostRole}, Slots: uint32(local.Slots), Labels: f.Labels, Version: thisBuild().Version, Waits: s.waits(patience),
		News: func(n cluster.News) { say(s.tell, leads.news(n)) },
	})
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p.cluster, local.Name = c, c.Self()
	leaders := stores.New(p.leader)
	if err := awaitLeader(patience, c); err != nil {
		return false, false, err
	}
	err = trust.Insist(patience, s.waits(patience), func() (err error) {
		p.bucket, err = s.chooseBucket(patience, local.Store, f.set.Changed("store"), leaders)
		return err
	})
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, p.bucket.Close()) }()
	company, err := actors.Start(actors.Config{Log: log, Node: local, Nodes: p.nodes(f.Labels)})
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, company.Close()) }()
	moved, stop := watchBucket(ctx, c, p.bucket, leaders)
	defer stop()
	if p.bucket.shared {
		c.ShareStore()
	}
	c.Announce()
	fmt.Fprintf(s.screen, "troupe %s: node %s at %s, %s, joined %s, store %s\n", thisBuild().Version, c.Self(), c.Address(), count(local.Slots, "slot"), f.Join, p.storeName(local.Store))
	select {
	case <-moved:
		s.tell(storeMoved)
		return true, true, nil
	case <-ctx.Done():
		s.leave(company, c)
		return true, false, nil
	case <-company.Done():
		return true, false, fault.New("up.run", fault.KindOf(company.Err()), "the node ends: %w", company.Err())
	case <-c.Done():
		fmt.Fprintf(s.screen, "troupe: %v\n", c.Err())
		return true, true, nil
	}
}

// leave has what lies on a node go elsewhere before it ends, unless it is put out.
func (s *session) leave(company *actors.Company, c *cluster.Cluster) {
	patience, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-c.Done():
			cancel()
		case <-patience.Done():
		}
	}()
	if err := company.Leave(patience); err != nil {
		fmt.Fprintf(s.screen, "troupe: the node goes all the same: %v\n", err)
	}
	cancel()
	<-over
}

// quiet is nil where a signal has ended what was going on.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// awaitLeader waits until the node that leads is listed. Unavailable.
func awaitLeader(ctx context.Context, c *cluster.Cluster) error {
	listed := make(chan struct{}, 1)
	stop := c.Watch(func(members []cluster.Member) {
		if len(listed) == 0 && slices.ContainsFunc(members, func(m cluster.Member) bool { return m.Leader }) {
			listed <- struct{}{}
		}
	})
	defer stop()
	select {
	case <-listed:
		return nil
	case <-ctx.Done():
		return fault.New("up.join", fault.Unavailable, "the node that leads has not begun to work yet: look at what it says: %w", ctx.Err())
	}
}
