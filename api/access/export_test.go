package access

// IsLoopback reports whether a host is this machine.
var IsLoopback = isLoopback
