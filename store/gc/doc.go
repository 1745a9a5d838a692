// Package gc finds and removes what a store holds and nobody needs: what
// processes left that died in the middle of something, and what has grown old
// unused.
//
// It runs beside jobs, importers and other collectors, which know nothing of
// it, so each rule has its reason why it may:
//
//   - What is being made has no task, manifest or card yet. It counts as left
//     behind only a day after its newest object.
//   - Tensors of a job that has ended are what it could be resumed from. The
//     collector claims the job first, as a resume would: of the two one is
//     refused. History, events and documents stay.
//   - Below an incarnation with two whole states nobody looks for a state: its
//     owner removes them too, but cannot know of what an older owner, which was
//     frozen in the middle of a Save, writes after that.
//   - A version of a function or a data set is in use while a task or a model
//     names it, and while it is the latest of its name. An importer makes what
//     it imports the latest, and young. The manifest goes first: without it the
//     rest is not there, and the next importer writes it anew.
//
// Whatever cannot be read counts as in use: a task that is damaged keeps every
// version, a state that is damaged its job.
package gc
