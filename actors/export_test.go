package actors

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Merges is what functions wait on that have finished their round.
type Merges = merges

// NewMerges returns one that knows of no job.
func NewMerges() *Merges { return newMerges() }

// FilesOf are the data sets of a node among others, as its functions get them.
func FilesOf(bucket store.Store, cached, node string) host.Datasets {
	return localData{dataset.New(bucket), cache.New(bucket, cached, 0), node}
}

// Add takes in events.
func (m *merges) Add(events []*messages.JobEvent) { m.add(events) }

// Wait is a remote.Next.
func (m *merges) Wait(ctx context.Context, ref remote.Ref) error { return m.wait(ctx, ref) }

// Listing is what a server knows of the jobs of its store.
type Listing = listing

// NewListing returns one of a server that has not looked yet.
func NewListing() *Listing { return newListing() }

// Ready says that not all were looked at.
func (l *listing) Ready() error { return l.ready() }

// Knows waits until a job was looked at.
func (l *listing) Knows(ctx context.Context, id string) error { return l.knows(ctx, id) }

// Finish takes in that all jobs were looked at, but those.
func (l *listing) Finish(unread map[string]error) { l.finish(unread) }

// NodeStacks is what a node says of a job.
type NodeStacks = nodeStacks

// StacksOf is that.
func StacksOf(node string, err error, stacks ...*messages.FunctionStack) NodeStacks {
	return nodeStacks{node, stacks, err}
}

// StacksText is what a person reads.
func StacksText(all []NodeStacks, among bool) string { return stacksText(all, among) }

// Printing is what nodes that print do: a sender, and what the node that leads takes.
type Printing struct {
	*logSender
	Taker *logTaker
}

// NewPrinting returns a sender whose requests go through carry, which may lose them,
// and a taker that gives lines to add.
func NewPrinting(carry func(m *messages.LinesPrinted, take func(*messages.LinesPrinted)) error, add func(python.Line)) *Printing {
	p := &Printing{Taker: newLogTaker(add, func(string) {})}
	p.logSender = newLogSender("n1", "b1", func(_ context.Context, m *messages.LinesPrinted) error {
		return carry(m, p.Taker.take)
	}, zap.NewNop(), func() time.Time { return time.Unix(0, 0) })
	return p
}

// Add prints a line, Flush sends what has been printed.
func (p *Printing) Add(l python.Line) { p.add(l) }
func (p *Printing) Flush()            { p.flush(context.Background()) }
func (p *Printing) Settle()           { p.settle(context.Background()) }

// NewRelay is what passes endpoints on to other nodes.
func NewRelay(client func(string) (*http.Client, string, error), here http.Handler) http.Handler {
	return newRelay(client, here)
}

// TellMerged answers nodes that ask what was merged, by merges.
func TellMerged(m *Merges) http.HandlerFunc { return (&remotes{merges: m}).tellMerged }

// AskMerged is the remote.Next of a node that does not lead.
func AskMerged(n *Nodes) remote.Next { return (&farJobs{node: "n1", nodes: n}).wait }

// AskStacks asks a node, whose host that is, until ctx ends.
func AskStacks(ctx context.Context, system *actor.ActorSystem, host *actor.PID) NodeStacks {
	c := &Company{system: system, at: places{tree: &Tree{Host: host}, node: "n1"}}
	return c.askStacks(ctx, "n1", "j")
}

// ErrSilent is of a node that has not answered in time.
var ErrSilent = errSilent

// EpochsSince adds the epochs that stored events tell of.
func EpochsSince(epochs []*messages.EpochRecord, events iter.Seq2[[]byte, error]) []*messages.EpochRecord {
	return epochsSince(epochs, events)
}
