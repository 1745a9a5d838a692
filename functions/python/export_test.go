package python

// For tests of what is not exported.
var (
	CountGPUs = visible
	TrimStack = trimStack
)
