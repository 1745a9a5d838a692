// Package jobjson is a job in JSON, with KubeML's field names: what is asked of
// it, how it goes, what it has done, and what happened to it. The server, its
// clients and the standalone job speak it.
//
// What is read from a user is read strictly: an error is Invalid, names the value
// and says what would be right. What is read from another node ignores what a
// later version may have added.
package jobjson
