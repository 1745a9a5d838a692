package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// serverName is in every certificate of the authority, so that a server can
	// be reached by any address.
	serverName = "troupe.internal"

	caLife     = 20 * 365 * 24 * time.Hour
	serverLife = 2 * 365 * 24 * time.Hour
	renewal    = serverLife / 4 // before its end
)

// authority signs the certificates of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "troupe authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife), // clocks differ
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// loadAuthority reads what save has written.
func loadAuthority(dir string) (*authority, error) {
	cert, key, err := loadPair(dir, caFile, caKeyFile)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

func (a *authority) save(dir string) error { return savePair(dir, caFile, caKeyFile, a.cert, a.key) }

func (a *authority) fingerprint() [sha256.Size]byte { return sha256.Sum256(a.cert.Raw) }

// issue makes a server certificate for hosts, names and addresses, and for
// serverName.
func (a *authority) issue(hosts []string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "troupe server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{serverName},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fault.New("access.issue", fault.Invalid, "certificate for %q: %w", hosts, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// serves reports whether a certificate of the authority is good for a while,
// for all of these hosts.
func (a *authority) serves(cert *x509.Certificate, hosts []string, now time.Time) bool {
	if cert.CheckSignatureFrom(a.cert) != nil || now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(-renewal)) {
		return false
	}
	return !slices.ContainsFunc(append([]string{serverName}, hosts...), func(host string) bool { return cert.VerifyHostname(host) != nil })
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

func loadPair(dir, certName, keyName string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certBlock, err := readPEM(dir, certName)
	if err != nil {
		return nil, nil, err
	}
	keyBlock, err := readPEM(dir, keyName)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certBlock)
	if err != nil {
		return nil, nil, broken(dir, certName)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, broken(dir, keyName)
	}
	return cert, key, nil
}

func readPEM(dir, name string) ([]byte, error) {
	body, err := readSecret(dir, name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(body)
	if block == nil {
		return nil, broken(dir, name)
	}
	return block.Bytes, nil
}

func broken(dir, name string) error {
	return fault.New("access.load", fault.Corrupt,
		"%s is damaged, or does not belong to its neighbours: restore it, or remove the folder to make certificates and tokens anew", filepath.Join(dir, name))
}

func savePair(dir, certName, keyName string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(dir, keyName, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return err
	}
	return writeFile(dir, certName, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}
