package access

import (
	"crypto/tls"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
	"github.com/troupe-ml/troupe/internal/pki"
)

// The files of a TLS folder, beside those of package pki.
const (
	serverFile    = "server.pem"
	serverKeyFile = "server-key.pem"
	tokensFile    = "tokens.json"
)

// Setup is what a server needs to be reached from other machines.
type Setup struct {
	TLS    *tls.Config // with a certificate that is renewed in time
	Tokens *Tokens
	First  bool // all of it was made just now
}

// Open reads a TLS folder, and fills it if it is new or was not finished. Hosts
// are names and addresses by which people reach this server, beside those that
// this machine knows of. Invalid, Corrupt, Unavailable.
func Open(dir string, hosts []string) (*Setup, error) {
	if dir == "" {
		return nil, fault.New("access.open", fault.Invalid, "there is no folder for certificates and tokens: give --tls-dir")
	}
	s := &Setup{}
	hosts = append(slices.Clone(hosts), machineHosts()...)
	err := pki.Locked(dir, func() error {
		ca, err := s.open(dir)
		if err != nil {
			return err
		}
		c := &certificates{dir: dir, ca: ca, hosts: hosts}
		if _, err := c.get(nil); err != nil {
			return err
		}
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.get, NextProtos: []string{"http/1.1"}}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open reads authority and tokens, or makes them.
func (s *Setup) open(dir string) (*pki.Authority, error) {
	s.Tokens = &Tokens{dir: dir}
	err := s.Tokens.load()
	if err == nil {
		ca, err := pki.LoadAuthority(dir)
		if fault.KindOf(err) == fault.NotFound {
			err = fault.New("access.open", fault.Corrupt, "%w, but there are tokens: restore it, or remove the folder to make certificates and tokens anew", err)
		}
		if err == nil {
			s.Tokens.fingerprint = ca.Fingerprint()
		}
		return ca, err
	}
	if fault.KindOf(err) != fault.NotFound {
		return nil, err
	}
	s.First = true
	return s.make(dir)
}

// make fills a folder, in which the cluster may have an authority already. The
// tokens come last: without them the next start makes them all again.
func (s *Setup) make(dir string) (*pki.Authority, error) {
	ca, err := pki.OpenAuthority(dir, time.Now())
	if err != nil {
		return nil, err
	}
	s.Tokens.fingerprint = ca.Fingerprint()
	var entries []entry
	for _, role := range Roles() {
		token := pki.NewToken(pki.ForAPI, s.Tokens.fingerprint)
		if err := pki.WriteSecret(dir, role.String()+".token", []byte(token+"\n")); err != nil {
			return nil, err
		}
		entries = append(entries, newEntry(role.String(), role, token))
	}
	s.Tokens.mu.Lock()
	defer s.Tokens.mu.Unlock()
	return ca, s.Tokens.saveLocked(entries)
}

// certificates hands out the server's certificate, and makes another one when
// it must.
type certificates struct {
	dir   string
	ca    *pki.Authority
	hosts []string

	mu   sync.Mutex // guards cert
	cert *tls.Certificate
}

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.cert != nil && c.ca.Serves(c.cert.Leaf, c.hosts, now) {
		return c.cert, nil
	}
	leaf, key, err := pki.LoadPair(c.dir, serverFile, serverKeyFile)
	if err != nil || !c.ca.Serves(leaf, c.hosts, now) {
		if leaf, key, err = c.ca.IssueServer(c.hosts, now); err != nil {
			return nil, err
		}
		if err := pki.SavePair(c.dir, serverFile, serverKeyFile, leaf, key); err != nil {
			return nil, err
		}
	}
	c.cert = &tls.Certificate{Certificate: [][]byte{leaf.Raw, c.ca.Certificate().Raw}, PrivateKey: key, Leaf: leaf} // who pins needs both
	return c.cert, nil
}

// machineHosts are the names and addresses of this machine.
func machineHosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil && name != "" && !strings.ContainsAny(name, " _") {
		hosts = append(hosts, name)
	}
	for _, ip := range loopback.Others() {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
