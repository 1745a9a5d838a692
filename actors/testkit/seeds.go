package testkit

import (
	"flag"
	"iter"
	"os"
	"strconv"
	"testing"
)

// seedFlag is registered in test binaries only, as only tests import this package.
var seedFlag = flag.Uint64("seed", 0, "run simulations with this seed only")

// Seeds returns the seeds a test runs with: 1 to n, at least one. The environment variable
// TROUPE_SEEDS replaces n; the test flag -seed=N leaves the seed N alone.
func Seeds(t testing.TB, n int) iter.Seq[uint64] {
	t.Helper()
	lo, hi := uint64(1), uint64(max(n, 1))
	if text := os.Getenv("TROUPE_SEEDS"); text != "" {
		var err error
		if hi, err = strconv.ParseUint(text, 10, 32); err != nil {
			t.Fatalf("testkit: TROUPE_SEEDS=%s is no number of seeds", text)
		}
	}
	if *seedFlag != 0 {
		lo, hi = *seedFlag, *seedFlag
	}
	return func(yield func(uint64) bool) {
		for seed := lo; yield(seed) && seed < hi; seed++ {
		}
	}
}
