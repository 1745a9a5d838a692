package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// ServerName is in every certificate of an authority, so that a server can be
	// reached by any address.
	ServerName = "troupe.internal"

	caFile    = "ca.pem"
	caKeyFile = "ca-key.pem"

	// nodeUnit is in the subject of the certificates of nodes, and in no other.
	nodeUnit = "troupe node"

	caLife   = 20 * 365 * 24 * time.Hour
	leafLife = 2 * 365 * 24 * time.Hour
	renewal  = leafLife / 4 // before its end
	// clocks is by how much that of a machine may be behind the authority's: a
	// certificate is good from so long before it was made.
	clocks = 7 * 24 * time.Hour
)

// Authority signs the certificates of a cluster.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one, which is in no file yet.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "troupe authority"},
		NotBefore: now.Add(-clocks), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert: cert, key: key}, err
}

// LoadAuthority reads what Save has written. NotFound, Corrupt, Invalid,
// Unavailable.
func LoadAuthority(dir string) (*Authority, error) {
	cert, key, err := LoadPair(dir, caFile, caKeyFile)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key}, nil
}

// OpenAuthority reads the authority of a folder, which is Locked; one is made
// where there is none yet. Corrupt, Invalid, Unavailable.
func OpenAuthority(dir string, now time.Time) (*Authority, error) {
	a, err := LoadAuthority(dir)
	if fault.KindOf(err) != fault.NotFound {
		return a, err
	}
	if a, err = NewAuthority(now); err != nil {
		return nil, err
	}
	return a, a.Save(dir)
}

// Save keeps an authority in a folder.
func (a *Authority) Save(dir string) error { return SavePair(dir, caFile, caKeyFile, a.cert, a.key) }

// Certificate is the authority's own.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Fingerprint is what tokens know an authority by.
func (a *Authority) Fingerprint() [sha256.Size]byte { return Fingerprint(a.cert) }

// Fingerprint is the SHA-256 of a certificate.
func Fingerprint(cert *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(cert.Raw) }

// NewKey makes a key for a certificate.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// IssueServer makes a server certificate for hosts, names and addresses, and for
// ServerName.
func (a *Authority) IssueServer(hosts []string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := NewKey()
	if err != nil {
		return nil, nil, err
	}
	template := leaf(pkix.Name{CommonName: "troupe server"}, now, x509.ExtKeyUsageServerAuth)
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := a.sign(template, key.Public())
	if err != nil {
		return nil, nil, fault.New("pki.issue", fault.Invalid, "certificate for %q: %w", hosts, err)
	}
	return cert, key, nil
}

// IssueNode makes the certificate by which a node is client and server of the
// others.
func (a *Authority) IssueNode(node string, public crypto.PublicKey, now time.Time) (*x509.Certificate, error) {
	name := pkix.Name{CommonName: node, OrganizationalUnit: []string{nodeUnit}}
	return a.sign(leaf(name, now, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth), public)
}

// NodeOf is the node whose certificate that is, "" if it is not a node's. That an
// authority has signed it is to be checked before.
func NodeOf(cert *x509.Certificate) string {
	if !slices.Equal(cert.Subject.OrganizationalUnit, []string{nodeUnit}) {
		return ""
	}
	return cert.Subject.CommonName
}

// Serves reports whether a certificate of the authority is good for a while, for
// all of these hosts.
func (a *Authority) Serves(cert *x509.Certificate, hosts []string, now time.Time) bool {
	if cert.CheckSignatureFrom(a.cert) != nil || now.Before(cert.NotBefore) || Old(cert, now) {
		return false
	}
	return !slices.ContainsFunc(append([]string{ServerName}, hosts...), func(host string) bool { return cert.VerifyHostname(host) != nil })
}

// Old reports whether a certificate is to be made again, as its end is near.
func Old(cert *x509.Certificate, now time.Time) bool { return now.After(cert.NotAfter.Add(-renewal)) }

func leaf(name pkix.Name, now time.Time, usage ...x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(), Subject: name,
		NotBefore: now.Add(-clocks), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage, BasicConstraintsValid: true,
		DNSNames: []string{ServerName},
	}
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}
