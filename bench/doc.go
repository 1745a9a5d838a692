// Package bench measures what the company of actors costs beside the bare
// minimum of the same work, in the same process and run. It holds benchmarks
// only; make bench PKG=./bench/... prints them:
//
//	BenchmarkRounds/plane=memory/N=64/slots=2-2  ...  0.67 of-bare  455 rounds/s  680 bare-rounds/s
//	                                                  6.1 messages/function  34 µs/function
//
// # Rounds
//
// One round of N functions that do nothing, with the real actors of a node on a
// real actor system: the assignments are cut, an invoker is spawned for each, the
// host runs it on one of its slots, its answer (a model of four numbers) is
// checked, the answers are merged, the event reaches a watcher, and the answers
// are freed. The columns:
//
//   - of-bare: how many rounds ours do in the time of one of the bare library, the
//     figure to look at. It is to stay at 0.3 or above with plane=memory.
//   - bare-rounds/s: the actor library alone and as it comes, which in each round
//     spawns N children, has each exchange as many messages, and stops them. It
//     stores, checks, merges and times nothing, and runs nothing but its actors.
//   - messages/function: what ours were counted to exchange, before the clock
//     starts, and what the bare library is told to: all user messages that any
//     actor got between an epoch's start and its end. The messages of an actor's
//     life (started, stopped) come on top, with either alike.
//   - µs/function: a round's time divided by N, the overhead of one function.
//   - ns/op, B/op, allocs/op: of one round of ours.
//   - µs/plain-file: with plane=scratch, what it takes to write, rename, read and
//     remove one file of this size in the same folder without us. A round makes
//     N + 1, the bare library none; that is why of-bare is lower there.
//
// Ours and the bare library take turns of a few rounds, eight each, and the
// columns show medians, because a machine is not equally fast all the time.
//
// # Merge
//
// MB/s of answers merged into a new model on the plane, beside memcpy-MB/s, the
// same bytes merely copied in memory; of-memcpy is the one divided by the other.
//
// # Checkpoints
//
// ms/round of a job whose state is stored beside its rounds, on a disk that is
// synced: hardly ever (never), after every merge (always) and as often as Troupe
// chooses (auto), and the last two by the first.
//
// # KilledWorkers
//
// 100 rounds of a second, four Python workers, of which one is killed in every ten
// rounds at a moment drawn evenly. of-calm-raw is the undisturbed run's time by
// that, which is the useful samples per second by those of the undisturbed run;
// of-calm-counted the same when what the killed attempts had worked (s-lost, of
// four) counts as capacity that was not there. They are to be 0.85 and 0.9 or more.
//
// # PythonManyRounds
//
// 5,000 rounds of a tiny PyTorch program, N=2: what is held after 500 rounds, 2,750
// and 5,000 (logged; garbage is given back before), and the last by the first as
// X-ratio: anonymous memory of this process (anon), memory of its workers with their
// share of what they share (workers) and alone (workers-anon), open files (fds),
// goroutines, processes, files in scratch and in the store. Nothing of it may grow
// with the rounds but anon, which two things make grow that have an end: the Journal
// keeps 10,000 events of a job, and the actor library's registry of actors allocates
// each of its 32,768 buckets when a name first falls into it (8.6 MB in all).
//
// # Plane
//
// A model goes to the other one or two nodes, each of which asks for it twice at a
// time, and an answer of its size comes back from each; every node is a process,
// with the connections of a cluster. s/round; MB/round-node is what was sent, by the
// nodes (two models: one out, once, and one back). Of-tls is the time of a copy of
// the same bytes over bare TLS between the same processes, from memory to nowhere,
// by ours, and of-tls-cpu the same of the processor time of all nodes: it says more
// where others are at work, too. Both are to be 0.5 or more. MB-rss-job and
// MB-rss-node are the most memory that a process had resident.
//
// # Sums
//
// Four answers of another node are merged: s/round added up there first, of-plain the
// time of the four as they are by that, of-bytes what is sent by what would be.
// Where both processes share a machine, and its loopback is the link, time is what
// it costs, and bytes what it gains.
//
// # Store
//
// An object is put into another node's store and read from it, over TLS, both nodes
// in this process: MB/s of both together, and peak-anon-MB as below.
//
// # Remote
//
// A function behind HTTP takes a model and gives one back, exchange and endpoint in
// this process: MB/s of model in both directions, and peak-anon-MB, the most
// anonymous memory beyond that of before. That is to stay at some MB whatever the
// model: nothing of it is held but windows.
//
// # IdleJobs
//
// bytes/job is what a job takes that does nothing but wait, all its actors,
// timers and stacks counted; µs/job is the time from its submission until then.
package bench
