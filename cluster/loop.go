package cluster

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/messages"
)

const (
	beatEvery   = time.Second
	rejoinEvery = 2 * time.Second
	renewEvery  = 6 * time.Hour
	// placeMemory is how long a node that is gone is looked for.
	placeMemory = time.Hour
)

// run looks at the gossip, asks the others whether they are well, and looks for
// those that are lost, until Close.
func (c *Cluster) run() {
	beat, rejoin, renew := time.NewTicker(beatEvery), time.NewTicker(rejoinEvery), time.NewTicker(renewEvery)
	defer beat.Stop()
	defer rejoin.Stop()
	defer renew.Stop()
	searching := make(chan struct{}, 1) // holds one while a search runs
	search := func() {
		select {
		case searching <- struct{}{}:
			c.tasks.Go(func() {
				c.search()
				<-searching
			})
		default:
		}
	}
	for {
		select {
		case <-c.stop:
			return
		case <-c.poked:
		case <-beat.C:
			c.beats()
		case <-c.reborn:
			search()
		case <-rejoin.C:
			search()
		case <-renew.C:
			c.tasks.Go(c.renew)
		}
		c.look(time.Now())
	}
}

// look takes what the gossip says into the table, and tells of what has changed.
func (c *Cluster) look(now time.Time) {
	seen := c.delegate.views()
	c.watching.Lock() // so that watchers hear of changes in their order
	defer c.watching.Unlock()
	c.mu.Lock()
	for _, v := range seen {
		if v.node != c.Self() && v.facts != nil {
			c.known[v.node] = place{v.address, v.facts.GetBoot(), now}
		}
	}
	c.digest = digest(seen)
	gone, changed := c.table.update(seen, now)
	news := c.table.fresh
	c.goneLocked(gone)
	for node := range c.table.members {
		if node != c.Self() {
			c.lease.know(node, now)
		}
	}
	if gap := now.Sub(c.looked); c.table.leads && !c.looked.IsZero() && gap > leaseTerm/2 {
		c.lease.paused(gap) // it was frozen; another leader there is not, and its store tells it if there is
	}
	c.looked = now
	if c.lease.over(now) {
		c.failLocked(ErrFenced)
	}
	if changed {
		close(c.changed)
		c.changed = make(chan struct{})
	}
	members := c.table.list()
	c.mu.Unlock()
	c.announce(news)
	if changed {
		c.tell(members)
	}
}

// tell calls the watchers; watching is held.
func (c *Cluster) tell(members []Member) {
	for _, f := range c.watchers {
		f(slices.Clone(members))
	}
}

// goneLocked cuts what is left of connections to members that are gone.
func (c *Cluster) goneLocked(gone []Member) {
	for _, m := range gone {
		c.dropClientLocked(m.Node)
		if c.remote != nil && m.Remoting != "" {
			r, address := c.remote, m.Remoting
			c.tasks.Go(func() { r.gone(address) }) // those who watch are called from there
		}
	}
}

// beats asks all nodes that this one knows of, dead or not: one that was given up
// hears of it by the answer.
func (c *Cluster) beats() {
	c.mu.Lock()
	c.table.ask()
	b := &messages.Beat{Boot: c.boot, Leader: c.table.leads, Digest: c.digest}
	if c.table.leads {
		b.Evicted = c.table.evictions()
	}
	var addresses []string
	for _, p := range c.known {
		addresses = append(addresses, p.address)
	}
	c.mu.Unlock()
	body, err := proto.Marshal(b)
	if err != nil {
		return // it is made of what marshals
	}
	for _, address := range addresses {
		c.links.send(address, frame(beatFrame, body))
	}
}

// beat answers another node's.
func (c *Cluster) beat(node string, b *messages.Beat) *messages.BeatReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if leader := c.leaderLocked(); b.GetLeader() && !c.table.leads && (leader.Node == "" || leader.Node == node) {
		c.table.told(b.GetEvicted(), now)
		if slices.Contains(b.GetEvicted(), c.boot) {
			c.failLocked(ErrEvicted)
		}
		if len(b.GetEvicted()) > 0 {
			c.poke()
		}
	}
	if p, is := c.known[node]; is && b.GetDigest() != c.digest {
		c.differ[p.address] = true
	} else if is {
		delete(c.differ, p.address)
	}
	return &messages.BeatReply{Boot: c.boot, Evicted: c.table.isOver(b.GetBoot())}
}

// answered takes the answer to a beat.
func (c *Cluster) answered(node string, reply *messages.BeatReply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.lease.reached(node, now)
	c.table.heard(node, reply.GetBoot(), now)
	if p, is := c.known[node]; is && p.boot != reply.GetBoot() {
		c.differ[p.address] = true // it was started again so soon that the gossip, which finds it well, has not noticed
		select {
		case c.reborn <- struct{}{}:
		default:
		}
	}
	if reply.GetEvicted() && !c.table.leads { // by the leader, whoever passes it on
		c.failLocked(ErrEvicted)
	}
}

// refusing takes that nothing listens at an address.
func (c *Cluster) refusing(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, p := range c.known {
		if p.address == address {
			c.lease.refused(node)
		}
	}
}

// goodbye takes that a node ends.
func (c *Cluster) goodbye(node string, g *messages.Goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table.members[node].Boot == g.GetBoot() {
		c.lease.left(node)
		delete(c.known, node)
	}
	c.table.left(node, g.GetBoot(), time.Now())
	c.poke()
}

// search joins the gossip again with every known node that it has lost, and with
// those that know something else: it does not do so by itself, or too late. A node
// that has lost its leader asks where that is.
func (c *Cluster) search() {
	there := map[string]bool{}
	for _, v := range c.delegate.views() {
		there[v.node] = true
	}
	var lost []string
	led := c.id.Authority() != nil
	c.mu.Lock()
	led = led || there[c.leaderLocked().Node]
	lost = slices.AppendSeq(lost, maps.Keys(c.differ))
	clear(c.differ)
	for node, p := range c.known {
		switch {
		case there[node]:
		case time.Since(p.seen) > placeMemory:
			delete(c.known, node)
		default:
			lost = append(lost, p.address)
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), helloTime)
	defer cancel()
	if last, api := c.id.Leader(); !led && api != "" {
		if found, err := trust.Discover(ctx, api, c.id.Fingerprint()); err == nil {
			lost = append(lost, found...)
		}
		lost = append(lost, last)
	}
	slices.Sort(lost)
	for _, address := range slices.Compact(lost) {
		if address != "" {
			_, _ = c.gossip.Join([]string{address}) // it is tried again
		}
	}
}

// renew gets this node a new certificate in time.
func (c *Cluster) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), helloTime)
	defer cancel()
	leader := c.leaderAddress()
	transport := newTransportTo(c.id, "")
	defer transport.CloseIdleConnections()
	fresh, err := c.id.Renew(ctx, newClient(transport), "https://"+leader)
	switch {
	case err != nil:
		c.log.Warn("the certificate of this node ends soon, and there is no new one yet", zap.Error(err))
	case fresh:
		c.log.Info("the certificate of this node was renewed")
	}
}
