// Package messages holds what Troupe's actors say to each other: one .proto
// file per conversation, the generated Go beside it. The comments in the .proto
// files are the contracts: who sends a message to whom, what answers it, and
// what a repeat does. Every message arrives at least once, late, or not at all.
//
// A message that was sent belongs to nobody any more: local sends share memory,
// so neither side may change it. Weights never travel in a message; a TensorRef
// names them.
package messages
