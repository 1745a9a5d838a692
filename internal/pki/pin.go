package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Pinned returns how a client talks to a server whose certificate is signed by
// the authority with that fingerprint, and that sends along both: with no other.
func Pinned(fingerprint [sha256.Size]byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: ServerName,
		// The chain is checked below, against the one authority that counts.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return verify(state, fingerprint) },
	}
}

// verify checks that a server's certificate is signed by the authority with
// that fingerprint, which the server sends along.
func verify(state tls.ConnectionState, fingerprint [sha256.Size]byte) error {
	certs := state.PeerCertificates
	if len(certs) == 0 {
		return errors.New("the server has no certificate")
	}
	for _, ca := range certs[1:] {
		if Fingerprint(ca) != fingerprint {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return err
	}
	return ErrOtherAuthority
}

// ErrOtherAuthority is behind the error of who meets a server of another
// authority than its token is of.
var ErrOtherAuthority = errors.New("the server is not the one that the token is for: check the address, or get a token of this server")
