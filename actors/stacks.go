package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

const (
	stacksTime  = 5 * time.Second // nodes have to say where functions are
	stacksAgain = 2 * time.Second // after which one is asked again
)

// errSilent is of a node that has not answered in time.
var errSilent = fault.New("actors.stacks", fault.Unavailable, "it has not answered within %v", stacksTime)

// Stacks says where each running function of a job is right now, on all nodes. A
// node that does not say so within 5 s is named. NotFound.
func (c *Company) Stacks(ctx context.Context, id string) (string, error) {
	if _, err := c.Job(ctx, id); err != nil {
		return "", err
	}
	if text, there, err := c.processes.Stacks(ctx, id); there {
		return text, err
	}
	hosts, err := ask[*messages.ListHostsReply](ctx, c, c.tree.Scheduler, &messages.ListHosts{JobId: id})
	if err != nil {
		return "", err
	}
	within, cancel := context.WithTimeoutCause(ctx, stacksTime, errSilent)
	defer cancel()
	answers := make(chan nodeStacks)
	for _, h := range hosts.GetHosts() {
		go func() { answers <- c.askStacks(within, h.GetNode(), id) }()
	}
	var all []nodeStacks
	for range hosts.GetHosts() {
		all = append(all, <-answers)
	}
	return stacksText(all, c.nodes != nil), nil
}

// stacksHere says where the functions of a job are that this node runs.
func (c *Company) stacksHere(job string) map[int]string {
	stacks := map[int]string{}
	for _, r := range []functions.Runtime{c.natives, c.programs} {
		if t, ok := r.(functions.Tracer); ok {
			maps.Copy(stacks, t.Stacks(job))
		}
	}
	return stacks
}

// nodeStacks is what a node says of a job, or why it does not.
type nodeStacks struct {
	node   string
	stacks []*messages.FunctionStack
	err    error
}

// askStacks asks a node, again where it does not answer, until ctx ends.
func (c *Company) askStacks(ctx context.Context, node, job string) nodeStacks {
	for {
		host := c.at.host(node)
		if host == nil {
			return nodeStacks{node: node, err: fault.New("actors.stacks", fault.Unavailable, "it is not there")}
		}
		answer, err := c.system.Root.RequestFuture(host, &messages.AskStacks{JobId: job}, min(stacksAgain, left(ctx))).Result()
		if reply, ok := answer.(*messages.AskStacksReply); ok && err == nil {
			return nodeStacks{node: node, stacks: reply.GetStacks()}
		}
		if errors.Is(err, actor.ErrDeadLetter) {
			_ = pause(ctx, askAgain) // it is about to begin, or to end
		}
		if ctx.Err() != nil {
			return nodeStacks{node: node, err: context.Cause(ctx)}
		}
	}
}

// left is how long it is until ctx ends, which has a deadline.
func left(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(0, time.Until(deadline))
}

// stacksText is what nodes say, as a person reads it: by function, of which two may
// run at once, and then who does not say. Among other nodes each function has its
// node beside it.
func stacksText(all []nodeStacks, among bool) string {
	type stack struct {
		function uint32
		where    string
		text     string
	}
	var stacks []stack
	var silent strings.Builder
	for _, n := range slices.SortedFunc(slices.Values(all), func(a, b nodeStacks) int { return cmp.Compare(a.node, b.node) }) {
		where := ""
		if among {
			where = " on " + n.node
		}
		for _, f := range n.stacks {
			stacks = append(stacks, stack{f.GetFunction(), where, f.GetText()})
		}
		if n.err != nil {
			fmt.Fprintf(&silent, "node %s runs functions of the job and does not say where they are: %v\n", n.node, n.err)
		}
	}
	slices.SortStableFunc(stacks, func(a, b stack) int { return cmp.Compare(a.function, b.function) })
	var out strings.Builder
	for _, s := range stacks {
		fmt.Fprintf(&out, "function %d%s:\n%s\n", s.function, s.where, s.text)
	}
	out.WriteString(silent.String())
	if out.Len() == 0 {
		return "no function of the job runs right now\n"
	}
	return out.String()
}
