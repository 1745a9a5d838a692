// Package remote lets other nodes work in a node's store, over HTTP: Handler
// serves it, Store is one at another node. What storetest asks of a store holds
// across the connection, and across its failures.
//
// A write, or removal, whose answer is lost was done, was not, or will yet be by a
// server that has not heard that nobody waits any more. So each has a name, an
// attempt's, and whoever lost the answer asks for it: what is not done by then
// never will be. Nothing of a writer overtakes what that writer writes later, and
// nobody who created an object is told that it was there.
//
//	GET    /objects/KEY   with ranges, and an ETag to go on by
//	PUT    /objects/KEY   with If-None-Match: * only-if-absent; the trailer
//	                      Troupe-Commit says length and xxhash64 of what was sent,
//	                      without it nothing is stored
//	DELETE /objects/KEY
//	GET    /stat/KEY      an object, as JSON
//	GET    /list?prefix=  a line of JSON each; the last one says that it is the last
//	GET    /folders?prefix=
//	POST   /settle        what became of an attempt
//	GET    /life          which store is open, see store.Pin
package remote

import "time"

// Headers of requests.
const (
	attemptHeader = "Troupe-Attempt" // the name of a write
	lifeHeader    = "Troupe-Life"    // what is pinned
	urlHeader     = "Troupe-Store"   // the URL that keys of the store are appended to, for people
	commitTrailer = "Troupe-Commit"  // "<bytes> <xxhash64>"
)

const (
	// silence is how long a server may say nothing to a question.
	silence = 15 * time.Second
	// patience is how long a question is asked again of a server that is not
	// reached: it may be restarting.
	patience = 10 * time.Second
	// commitFor is how long a server may take to bring on disk what it got.
	commitFor = 2 * time.Minute
	// farewell is how long a writer whose context has ended waits to hear that
	// nothing is left of what it wrote.
	farewell = time.Second
	// kept bounds the content that is sent again without asking its writer.
	kept = 1 << 20
)
