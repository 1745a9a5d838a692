// Package pki makes and keeps what the machines of a cluster know each other by:
// one authority, certificates that it signs, tokens that carry its fingerprint,
// and the folders with these, which only their owner may read.
//
// Every certificate has the same name beside others (ServerName), so that a
// server is reached by any address: what counts is who signed it.
package pki
