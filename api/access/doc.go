// Package access decides who may do what over HTTP.
//
// On loopback nobody needs a token: who is on this machine may do all, except
// that a web page may not, by whatever name it reaches us (Gate). Every other
// address has TLS and wants a token, which Setup makes at the first start
// beside a server certificate of the authority of package pki:
//
//	ca.pem, ca-key.pem           the authority: certificates for the cluster come from it too
//	server.pem, server-key.pem   made again when it is about to end, or the host has other names
//	tokens.json                  roles and SHA-256 of the tokens; written last: it says that the rest is whole
//	read.token, submit.token, admin.token   the first tokens, for people to take away; nothing reads them
//	lock                         held while the rest is made
//
// A token is "<version>.<SHA-256 of the authority's certificate>.<secret>".
// So whoever has one can tell the right server from a wrong one without a file
// (ClientTLS).
package access
