// Package isolate runs the functions of another runtime in processes of their
// own, so that what a function does to its process costs one attempt: a crash, an
// exit, memory without end, a loop that heeds no context.
//
//	Runtime ─┬─ child of slot 0   runs one invocation at a time, stays warm
//	         └─ child of slot 1
//
// A child is this program, started again with an environment variable by which
// Serve knows it: Serve then never returns. So a program that has functions of its
// own has them in the child too, if it calls Serve with them before it does
// anything else (package actors has a name for that: Isolated).
//
// A child is started when an invocation comes for its slot, and kept until it has
// been idle for Config.IdleTimeout. It is killed with its process group when its
// call ends before its time, and replaced after anything that leaves its state in
// doubt. It has one connection, to which it answers in frames (package child);
// when that closes it ends, whatever its function does, so no child outlives this
// process, however that ends. It dies by the parent-death signal too, and is for
// that started from a thread that lives as long as the runtime.
//
// Models, optimizer states and data sets are files that children read; what is
// only in memory here goes through a temporary file. Nothing of them crosses the
// connection.
package isolate
