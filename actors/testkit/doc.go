// Package testkit tests actors without waiting, and replays every failure from
// one number.
package testkit
