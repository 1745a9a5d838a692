// Package endpoint is what stands behind the URL of a function: it runs what a
// job calls for, wherever that job is.
//
// A call names a job's URL. The endpoint fetches the assignment from there, its
// rows, the model and the optimizer state, has a functions.Runtime run them, puts
// model and optimizer state back, and answers the call with what the function
// did. Package remote is the other side.
//
// Whatever lies between the two may repeat a call: the endpoint runs an attempt
// once, and gives each who asks the same answer. A call whose connection goes is
// one that nobody waits for: what it runs is cancelled.
package endpoint
