// Package claim decides who owns what in a store, with numbered claims under a
// prefix: the incarnations of a job, the terms of a leader.
//
//	<prefix><n>/claim         once: whoever creates it is the owner
//	<prefix><n>/beat          a number that grows while the owner lives
//	<prefix><n>/lock-<token>  file:// only: the owner holds an flock on it
//
// Numbers count from 1 without gaps, and claims are never removed. So the
// only-if-absent write of claim n+1 decides between all who want to follow n,
// and an owner n that wants to know whether it still is one asks for n+1 alone.
//
// Who may try for n+1 is a matter of liveness, not of safety: even a wrong
// guess makes one owner only. The guess is "gone" if
//
//   - the flock of n is free: the kernel frees it with the process, kill -9
//     included. Each attempt makes a lock of its own and takes it before it
//     tries for the claim, which names it. So a claim that can be seen is that
//     of an owner who holds its lock, or is dead; and a claimer that is frozen
//     or dies between the two has only a file that nobody asks for. Who gets
//     the claim removes those. Asking takes a shared lock, so that two who ask
//     do not see each other;
//   - or n was released in this process, or its claim may have been created by
//     an attempt of this process that then failed;
//   - or its claim is damaged, or missing beside what only an owner writes, and
//     no lock below n is held;
//   - or the caller has seen n without a new beat for longer than a live owner
//     is silent. This is for owners that are frozen or cut off, which keep
//     their locks, and for stores without locks. Clocks of different machines
//     are never compared.
//
// # A store that is restored from a copy
//
// Claims are of the folder that is at the store's path. An owner that finds
// another one there (store.Pin) makes its claim, all below it, and its lock anew,
// and is over if somebody has its number in it, or a higher one.
package claim
