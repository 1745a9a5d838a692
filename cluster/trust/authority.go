package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// nodesFile says which key belongs to which node, for ever.
const nodesFile = "nodes.json"

// Authority lets nodes into a cluster. It works on a folder that other processes
// may work on too, and is safe for concurrent use.
type Authority struct {
	dir       string
	ca        *pki.Authority
	gossipKey []byte
}

// OpenAuthority reads the authority of a TLS folder, or makes it. Invalid,
// Corrupt, Unavailable.
func OpenAuthority(dir string) (*Authority, error) {
	if dir == "" {
		return nil, fault.New("trust.open", fault.Invalid, "there is no folder for certificates: give --tls-dir")
	}
	a := &Authority{dir: dir}
	return a, pki.Locked(dir, func() (err error) {
		a.gossipKey, err = readGossipKey(dir)
		fresh := fault.KindOf(err) == fault.NotFound
		if err != nil && !fresh {
			return err
		}
		if a.ca, err = pki.OpenAuthority(dir, time.Now()); err != nil || !fresh {
			return err
		}
		a.gossipKey = make([]byte, gossipKeyBytes)
		_, _ = rand.Read(a.gossipKey) // it never fails
		return pki.WriteSecret(dir, gossipFile, a.gossipKey)
	})
}

// Lead makes this process the node that leads: that of a folder inside the
// authority's, named after the machine when it is new. The caller closes it.
// Conflict: another process is that node; Corrupt, Unavailable.
func (a *Authority) Lead(folder, machine string) (*Identity, error) {
	i, err := hold(filepath.Join(a.dir, folder))
	if err != nil {
		return nil, err
	}
	i.authority, i.root, i.gossipKey = a, a.ca.Certificate(), a.gossipKey
	if err := a.lead(i, machine); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

func (a *Authority) lead(i *Identity, machine string) (err error) {
	made, err := i.prepare(machine)
	if err == nil && made {
		err = i.savePrepared()
	}
	if err != nil {
		return err
	}
	i.cert, err = pki.LoadCertificate(i.dir, certFile)
	switch {
	case err == nil && pki.NodeOf(i.cert) == i.note.Node && a.ca.Serves(i.cert, nil, time.Now()) && i.key.PublicKey.Equal(i.cert.PublicKey):
		return nil
	case err != nil && fault.KindOf(err) != fault.NotFound:
		return err
	}
	if i.cert, err = a.issue(i.note.Node, i.key.Public()); err != nil {
		return err
	}
	return pki.SaveCertificate(i.dir, certFile, i.cert)
}

// issue gives a node its certificate. Conflict: the id belongs to another key.
func (a *Authority) issue(node string, public crypto.PublicKey) (cert *x509.Certificate, err error) {
	const op = "trust.issue"
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "the key of node %s: %w", node, err)
	}
	sum := sha256.Sum256(der)
	key := hex.EncodeToString(sum[:])
	err = pki.Locked(a.dir, func() error {
		nodes := map[string]string{}
		if err := readJSON(a.dir, nodesFile, &nodes); err != nil {
			return err
		}
		if known, ok := nodes[node]; ok && known != key {
			return fault.New(op, fault.Conflict, "there is a node %s, with another key: start with another folder, or restore the one it had", node)
		}
		if cert, err = a.ca.IssueNode(node, public, time.Now()); err != nil {
			return fault.New(op, fault.Invalid, "certificate for node %s: %w", node, err)
		}
		if nodes[node] == key {
			return nil
		}
		nodes = maps.Clone(nodes)
		nodes[node] = key
		return writeJSON(a.dir, nodesFile, nodes)
	})
	return cert, err
}

// Fingerprint is what join tokens know the authority by.
func (a *Authority) Fingerprint() [sha256.Size]byte { return a.ca.Fingerprint() }

// ListenTLS is how a node listener lets in: a client that offers JoinProtocol may
// join, at the leader; every other one must show the certificate of a node.
func (i *Identity) ListenTLS(protocols ...string) *tls.Config {
	nodes := i.ServerTLS(protocols...)
	if i.authority == nil {
		return nodes
	}
	joining := i.joinTLS()
	nodes.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == JoinProtocol {
			return joining, nil
		}
		return nil, nil
	}
	return nodes
}

// readJSON reads a file into v, which stays as it is where there is none.
func readJSON(dir, name string, v any) error {
	body, err := pki.ReadSecret(dir, name)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fault.New("trust.read", fault.Corrupt, "%s: %w: restore it", filepath.Join(dir, name), err)
	}
	return nil
}

func writeJSON(dir, name string, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteSecret(dir, name, append(body, '\n'))
}
