package main

import (
	"time"

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

	python      string
	memoryLimit int64 // bytes; 0: none
	idleTimeout time.Duration
	noPin       bool
	gpus        string
	isolate     bool
}

func newNodeFlags(getenv func(string) string) *nodeFlags {
	return &nodeFlags{store: config.DefaultStore(getenv), output: "text"}
}

// register adds the flags that every verb has which runs a job.
func (f *nodeFlags) register(set *pflag.FlagSet) {
	f.registerNode(set)
	registerOutput(set, &f.output)
}

func (f *nodeFlags) registerNode(set *pflag.FlagSet) {
	set.Var(whole(&f.slots, 1, config.MaxSlots), "slots", "functions that run at once (default: cores, at least the parallelism asked for)")
	set.StringVar(&f.store, "store", f.store, "URL of the store, where models are kept; else $TROUPE_STORE")
	set.CountVarP(&f.verbose, "verbose", "v", "log what happens; -vv: in detail")
}

// registerAll adds what describes a node that may run any function, and prints
// what became of it.
func (f *nodeFlags) registerAll(set *pflag.FlagSet) {
	f.registerAllSettings(set)
	registerOutput(set, &f.output)
}

// registerAllSettings adds what describes a node that may run any function.
func (f *nodeFlags) registerAllSettings(set *pflag.FlagSet) {
	f.registerPython(set)
	set.Var(whole(&f.threads, 1, config.MaxThreads), "threads", "threads of one function (default: cores/slots)")
	f.registerNode(set)
}

// registerPython adds the flags about the processes of functions.
func (f *nodeFlags) registerPython(set *pflag.FlagSet) {
	f.registerWorkers(set)
	set.BoolVar(&f.isolate, "isolate", false, "run Go functions in processes of their own too: one that crashes or does not return costs one attempt")
}

// registerWorkers adds the flags about the workers of Python programs.
func (f *nodeFlags) registerWorkers(set *pflag.FlagSet) {
	set.StringVar(&f.python, "python", "", "interpreter for programs (default: $TROUPE_PYTHON, or the first one found that has torch)")
	set.Var(byteSize(&f.memoryLimit), "memory-limit", "memory of one worker, such as 2GiB (default: no limit)")
	set.DurationVar(&f.idleTimeout, "idle-timeout", time.Minute, "how long a worker with nothing to do is kept")
	set.BoolVar(&f.noPin, "no-pin", false, "do not bind workers to cores")
	set.StringVar(&f.gpus, "gpus", "auto", "GPUs to use: auto, none, or how many")
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
	n.Isolate = f.isolate
	n.Python, n.MemoryLimit, n.IdleTimeout, n.NoPin, n.GPUs = f.python, f.memoryLimit, f.idleTimeout, f.noPin, f.gpus
	return n, n.Validate()
}
