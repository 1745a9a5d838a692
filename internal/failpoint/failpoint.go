// Package failpoint has named points at which a test build ends its own
// process, as kill -9 does, or meets a full disk: so that a test can try every
// moment of a protocol instead of hoping that a sleep hits it.
//
// Builds with -tags invariants read the environment, at the first point:
//
//	TROUPE_FAILPOINT=prefix:n        SIGKILL at the n-th passing (from 1) of any point whose name begins with prefix
//	TROUPE_FAILPOINT=prefix:n:full   there Pass returns ENOSPC instead, once
//	TROUPE_FAILPOINT_TRACE=file      each passing appends a line with the point's name to file
//
// The trace is written before the kill, so a run with it tells which points
// there are, how often each is passed, and where a killed run ended. Without
// the tag Pass compiles to nothing.
package failpoint
