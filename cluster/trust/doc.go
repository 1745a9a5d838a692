// Package trust decides which nodes belong to a cluster. One authority, that of
// the leader, signs the certificate of every node; whoever has such a
// certificate and its key may speak to the others, nobody else may.
//
// A new node shows a join token, which an admin hands out: it carries the
// fingerprint of the authority, so that the node knows whom it joins, and a
// secret, so that the authority knows whom it lets in. The proof that the node
// has the secret is bound to the connection on which it is sent: said again on
// another one it is worth nothing.
package trust
