//go:build invariants

package invariant

import "fmt"

// Enabled reports whether this build checks invariants.
const Enabled = true

// Check calls check and panics with an error that wraps its answer, should
// there be one. Without -tags invariants it does not even call check, which
// therefore must change nothing.
func Check(check func() error) {
	if err := check(); err != nil {
		panic(fmt.Errorf("broken invariant: %w", err))
	}
}
