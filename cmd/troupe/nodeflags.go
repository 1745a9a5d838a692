package main

import (
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// nodeFlags are the flags that describe the node on which a task runs.
type nodeFlags struct {
	slots   int // 0: as many as the machine and the task suggest
	threads int // 0: cores/slots
	store   string
	output  string
	verbose int
}

func newNodeFlags(getenv func(string) string) *nodeFlags {
	return &nodeFlags{store: config.DefaultStore(getenv), output: "text"}
}

// register adds the flags that every verb has which runs a job.
func (f *nodeFlags) register(set *pflag.FlagSet) {
	set.Var(whole(&f.slots, 1, config.MaxSlots), "slots", "functions that run at once (default: cores, at least the parallelism asked for)")
	set.StringVar(&f.store, "store", f.store, "URL of the store, where models are kept; else $TROUPE_STORE")
	registerOutput(set, &f.output)
	set.CountVarP(&f.verbose, "verbose", "v", "log what happens; -vv: in detail")
}

// registerOutput adds the flag that every verb has which prints a result.
func registerOutput(set *pflag.FlagSet, output *string) {
	set.VarP(oneOf(output, []string{"text", "json"}), "output", "o", "how the result is printed")
}

// node returns the node for a task, or the Invalid error of its check.
func (f *nodeFlags) node(t *messages.TrainTask) (config.Node, error) {
	n := config.DefaultNode()
	n.Store, n.Threads, n.Slots = f.store, f.threads, f.slots
	if n.Slots == 0 {
		n.Slots = max(config.Cores(), int(t.GetOptions().GetDefaultParallelism()))
	}
	n.Threads = n.ThreadsPerSlot()
	return n, n.Validate()
}
