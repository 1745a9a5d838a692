package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// mostStacks bounds what a host tells of stacks at once, in bytes: it is one
// message to whichever node asks.
const mostStacks = 512 << 10

// stacksTaken is what was asked for.
type stacksTaken struct {
	asker *actor.PID
	reply *messages.AskStacksReply
}

// onAskStacks looks where the functions of a job are, off the actor.
func (h *host) onAskStacks(ctx actor.Context, m *messages.AskStacks) {
	asker, node, job, stacks := ctx.Sender(), h.deps.Node, m.GetJobId(), h.deps.Stacks
	if asker == nil {
		return
	}
	if stacks == nil {
		stacks = func(string) map[int]string { return nil }
	}
	h.deps.Rim.Go(ctx.Self(), func() any {
		return &stacksTaken{asker, &messages.AskStacksReply{Node: node, Stacks: within(stacks(job), mostStacks)}}
	})
}

// within returns stacks by function, of which none has more than its share of so
// many bytes.
func within(stacks map[int]string, most int) []*messages.FunctionStack {
	var out []*messages.FunctionStack
	for _, function := range slices.Sorted(maps.Keys(stacks)) {
		text := strings.ToValidUTF8(strings.TrimRight(stacks[function], "\n"), "\uFFFD")
		out = append(out, &messages.FunctionStack{Function: uint32(function), Text: shortened(text, most/len(stacks))})
	}
	return out
}

// shortened returns the first lines of a text, in at most so many bytes.
func shortened(text string, most int) string {
	const room = 40 // for the last line, and what a message has beside the text
	if len(text)+room <= most {
		return text
	}
	kept := text[:max(0, most-room)]
	kept = kept[:strings.LastIndexByte(kept, '\n')+1]
	return kept + fmt.Sprintf("(%d lines are left out)", 1+strings.Count(text[len(kept):], "\n"))
}
