// Package ranged moves the bytes of one resource over HTTP, so that a connection
// that ends or goes silent in the middle costs the rest of it only: Serve gives
// any range, Open reads one over as many connections as it takes.
package ranged
