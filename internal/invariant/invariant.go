// Package invariant checks what must always hold, in builds that ask for it.
//
// Tests and simulations build with -tags invariants: there a broken invariant
// panics. Without the tag Check compiles to nothing, so that it may stand after
// every message.
package invariant
