// Package job is the catalog of jobs: what was asked, who owns each, and the
// states from which it can go on. It knows bytes and keys; what a task or a
// state says is its callers' business.
//
//	submissions/<sha256 of key>                    once: the id of the job
//	jobs/<id>/task.json                            once, never edited
//	jobs/<id>/requests/<seq>.json                  once each: what somebody asks of the job
//	jobs/<id>/incarnations/<n>/claim               once: whoever creates it owns the job
//	jobs/<id>/incarnations/<n>/beat                a number that grows while the owner lives
//	jobs/<id>/incarnations/<n>/lock-<token>        file:// only: the owner holds an flock on it
//	jobs/<id>/incarnations/<n>/state.json          the newest state
//	jobs/<id>/incarnations/<n>/previous.json       the one before
//	jobs/<id>/incarnations/<n>/<name>.safetensors  what the two name
//	jobs/<id>/incarnations/<n>/events-<k>.jsonl    a segment of its events
//
// # Claims
//
// Package claim decides who owns a job. Incarnations count from 1 without gaps,
// and their claims stay as long as the job does.
//
// # What an old owner can do
//
// It writes under its own number only. It checks its claim before it touches
// the store, after the files, which may take long, and after the state. The
// last check makes the promise: a Save that returns nil was visible before the
// next owner claimed, so that one starts from it or from something newer. An
// owner that sleeps behind a check may still write a state, which is shown to
// readers until its successor has one; but the successor has claimed by then,
// and it is the successor's own state that counts from its first Save on.
//
// It prunes only after the last check. A successor loads after it has claimed,
// and finds what the two states of that moment name, which pruning spares.
//
// # States
//
// state.json is two lines: the xxhash64 of the second, and that: job,
// incarnation, files with lengths and xxhash64, document. It is replaced
// after its files are there, and previous.json before that by what it was. At
// every moment one of the two is whole with all its files, whatever dies, fails
// or fills up; and where one file is damaged later, the other state is the way
// back. Files that both name are written once: those are single.
//
// A write that failed may have come through all the same, when the folder could
// not be synced or an answer was lost. The claim remembers what it tried and
// looks before it prunes.
//
// The first Save of an incarnation is what it started from. Until there is a
// second one the states below are kept as the way back; then they, their files,
// locks and beats go. An old owner that was in the middle of a Save then may
// leave the files of that, until the next incarnation prunes.
//
// The last state of a job that nobody goes on from names no files (End): it takes
// both places, and all files go. Clear does that for an owner that was killed
// within.
//
// # A store that is restored from a copy
//
// A claim finds out anew what is there when another folder has taken the store's
// place (store.Pin), and writes what is missing again, the task included.
package job
