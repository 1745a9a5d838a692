//go:build !invariants

package invariant

// Enabled reports whether this build checks invariants.
const Enabled = false

// Check does nothing: this build is without -tags invariants.
func Check(func() error) {}
