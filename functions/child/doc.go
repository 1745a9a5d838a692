// Package child is what runtimes share that run functions in processes of their
// own: to start such a process so that it dies with this one (Spawner), to watch
// it to its end and to kill it with all that it started (Process), to speak to it
// in frames of bounded length, to take what it prints line by line (Lines), to
// ask where it is (Running), and to hand it inputs and outputs as files (Temps,
// Output).
package child
