// Package python runs PyTorch programs in processes of their own.
//
//	Runtime ── program ─┬─ zygote            imports torch and the program once, forks workers
//	                    ├─ worker of slot 0  runs one invocation at a time, stays warm
//	                    └─ worker of slot 1
//
// A worker is asked for when an invocation comes for its slot, is kept until it
// has been idle for Config.IdleTimeout, and is forked anew after anything that
// leaves its state in doubt: a crash, an exception, a cut. A zygote that dies is
// replaced when the next fork is needed; workers do not notice. A program that
// cannot be forked safely (its zygote looks: threads, CUDA) gets workers that
// are processes of their own, with one warning; so does every program where
// there are GPUs.
//
// What a worker does is a failure of its invocation only: end, hang, send
// garbage, close half-way. To cut one its process group is killed; where its
// time is over it writes its Python stack to the log before.
//
// # Processes
//
// All of them connect to a socket in a folder that is ours alone, with a token
// (hub.go). A zygote has one connection, a worker three: control (requests and
// answers, in frames of bounded length), log (its standard output and error),
// and life, which carries nothing: a worker dies when it closes, so that none
// outlives this process, however that ends. Zygotes and unforked workers die by
// the parent-death signal too, and are for that started from a thread that
// lives as long as the runtime (process.go). Workers are watched by pidfd: what
// they leave running may hold their connections open.
//
// Models, optimizer states and data sets are files that workers map; what is
// only in memory here goes through a temporary file.
package python
