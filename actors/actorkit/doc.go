// Package actorkit holds what every actor of Troupe shares: the middleware that
// keeps a panic in a teardown from hurting anybody (Guard), the fallback of
// every Receive (Unhandled), the outside world of an actor (Rim), the order of
// a job's steps, and the outbox that gets events to the Journal at least once.
package actorkit
