package trust

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// The files of a node's folder.
const (
	rootFile   = "ca.pem" // of the authority: its certificate alone
	certFile   = "node.pem"
	keyFile    = "node-key.pem"
	gossipFile = "gossip.key"
	noteFile   = "node.json"
)

var files = [...]string{rootFile, certFile, keyFile, gossipFile, noteFile}

// Identity is what makes a process a node of a cluster: its name, which it
// keeps over restarts, its key and certificate, and the certificate of the
// authority. Its folder is that of this process until Close. It is safe for
// concurrent use.
type Identity struct {
	dir       string
	key       *ecdsa.PrivateKey
	root      *x509.Certificate
	gossipKey []byte
	authority *Authority // nil but at the leader
	release   func()

	mu   sync.Mutex // guards cert, note and the files of both
	cert *x509.Certificate
	note note
}

// note is what a node remembers beside keys, as node.json.
type note struct {
	Node   string `json:"node"`
	Port   int    `json:"port,omitempty"`   // of the node listener, the last time
	Leader string `json:"leader,omitempty"` // host:port of the leader's node listener, the last time
	Join   string `json:"join,omitempty"`   // host:port of the API of the node that was joined
	Lives  uint64 `json:"lives,omitempty"`  // that the node has begun
}

// Open reads the identity of a node that has joined before. NotFound: none has;
// Invalid: its certificate has ended, so that it is to join again; Conflict:
// another process is that node; Corrupt, Unavailable.
func Open(dir string) (*Identity, error) {
	if _, err := os.Stat(filepath.Join(dir, certFile)); errors.Is(err, os.ErrNotExist) {
		return nil, fault.New("trust.open", fault.NotFound, "no node has joined with %s", dir)
	}
	i, err := hold(dir)
	if err != nil {
		return nil, err
	}
	if err := i.load(); err != nil {
		i.Close()
		return nil, err
	}
	if time.Now().After(i.cert.NotAfter) {
		err := fault.New("trust.open", fault.Invalid, "the certificate of node %s has ended on %s: join again, with a token",
			i.note.Node, i.cert.NotAfter.Format(time.DateOnly))
		i.Close()
		return nil, err
	}
	return i, nil
}

// hold makes a folder that of this process.
func hold(dir string) (*Identity, error) {
	release, err := pki.Hold(dir)
	if err != nil {
		return nil, err
	}
	return &Identity{dir: dir, release: release}, nil
}

// load reads what a join has written.
func (i *Identity) load() (err error) {
	if i.root, err = pki.LoadCertificate(i.dir, rootFile); err != nil {
		return err
	}
	if i.gossipKey, err = readGossipKey(i.dir); err != nil {
		return err
	}
	if i.cert, i.key, err = pki.LoadPair(i.dir, certFile, keyFile); err != nil {
		return err
	}
	if err := i.readNote(); err != nil {
		return err
	}
	if i.cert.CheckSignatureFrom(i.root) != nil || pki.NodeOf(i.cert) != i.note.Node {
		return fault.New("trust.open", fault.Corrupt, "the files in %s do not belong together: remove the folder, and join again", i.dir)
	}
	return nil
}

// prepare names a node that has never had a certificate, and makes its key; what
// stands in its folder is taken. Made: something was not there; nothing is written,
// see savePrepared.
func (i *Identity) prepare(name string) (made bool, err error) {
	if err = i.readNote(); fault.KindOf(err) == fault.NotFound {
		i.note, made, err = note{Node: newNode(name)}, true, nil
	}
	if err != nil {
		return false, err
	}
	if i.key, err = pki.LoadKey(i.dir, keyFile); fault.KindOf(err) == fault.NotFound {
		made = true
		i.key, err = pki.NewKey()
	}
	return made, err
}

// savePrepared writes what prepare has made.
func (i *Identity) savePrepared() error {
	if err := pki.SaveKey(i.dir, keyFile, i.key); err != nil {
		return err
	}
	return i.saveNote()
}

// empty reports whether nothing is in the node's folder.
func (i *Identity) empty() bool {
	for _, name := range files {
		if _, err := os.Lstat(filepath.Join(i.dir, name)); !errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}

// discard removes the folder, and lets go of it.
func (i *Identity) discard() {
	for _, name := range files {
		_ = os.Remove(filepath.Join(i.dir, name)) // it need not be there
	}
	pki.Abandon(i.dir)
	i.release()
}

func (i *Identity) readNote() error {
	body, err := pki.ReadSecret(i.dir, noteFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &i.note); err != nil || i.note.Node == "" {
		return fault.New("trust.open", fault.Corrupt, "%s is damaged: remove the folder, and join again", filepath.Join(i.dir, noteFile))
	}
	return nil
}

func (i *Identity) saveNote() error {
	body, err := json.MarshalIndent(i.note, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteSecret(i.dir, noteFile, append(body, '\n'))
}

// Node is the id of the node, unique in the cluster.
func (i *Identity) Node() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.note.Node
}

// Authority is nil but at the leader.
func (i *Identity) Authority() *Authority { return i.authority }

// GossipKey encrypts what nodes gossip. It must not be changed.
func (i *Identity) GossipKey() []byte { return i.gossipKey }

// Fingerprint is that of the authority.
func (i *Identity) Fingerprint() [sha256.Size]byte { return pki.Fingerprint(i.root) }

// Port is that of the node listener when the node was last up, else 0.
func (i *Identity) Port() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.note.Port
}

// Leader is where the leader was last, host:port of its node listener, and where
// the API is that says where it is now; both "" at the leader.
func (i *Identity) Leader() (address, api string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.note.Leader, i.note.Join
}

// SetPort remembers the port of the node listener. Unavailable.
func (i *Identity) SetPort(port int) error {
	return i.remember(func(n *note) { n.Port = port })
}

// NextLife counts the lives of the node: each call gives a higher number than all
// before it. Unavailable.
func (i *Identity) NextLife() (life uint64, err error) {
	err = i.remember(func(n *note) {
		n.Lives++
		life = n.Lives
	})
	return life, err
}

// SetLeader remembers where the leader is. Unavailable.
func (i *Identity) SetLeader(address string) error {
	return i.remember(func(n *note) { n.Leader = address })
}

func (i *Identity) remember(change func(*note)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.note
	if change(&i.note); i.note == before {
		return nil
	}
	return i.saveNote()
}

// Close lets another process be this node.
func (i *Identity) Close() { i.release() }

// ServerTLS is how the node lets others in: only those with a certificate of a
// node, which PeerOf then names.
func (i *Identity) ServerTLS(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.certificate(), nil },
		ClientAuth:     tls.RequireAndVerifyClientCert, ClientCAs: i.pool(),
		VerifyConnection: func(s tls.ConnectionState) error { return isNode(s, "") },
	}
}

// ClientTLS is how the node reaches another one: that of the given id, or any if
// that is "".
func (i *Identity) ClientTLS(node string, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, ServerName: pki.ServerName, RootCAs: i.pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.certificate(), nil },
		VerifyConnection:     func(s tls.ConnectionState) error { return isNode(s, node) },
	}
}

// joinTLS is how the leader lets in those who have no certificate yet.
func (i *Identity) joinTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{JoinProtocol}, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.certificate(), nil },
	}
}

func (i *Identity) certificate() *tls.Certificate {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &tls.Certificate{Certificate: [][]byte{i.cert.Raw, i.root.Raw}, PrivateKey: i.key, Leaf: i.cert} // who pins needs both
}

func (i *Identity) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.root)
	return pool
}

// PeerOf is the node at the other end of a connection, "" if it has shown no
// certificate of a node.
func PeerOf(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	return pki.NodeOf(s.PeerCertificates[0])
}

func isNode(s tls.ConnectionState, want string) error {
	switch peer := PeerOf(s); {
	case peer == "":
		return errors.New("its certificate is not one of a node")
	case want != "" && peer != want:
		return fault.New("trust.verify", fault.Conflict, "that is node %s, not %s", peer, want)
	}
	return nil
}

// newNode makes an id from the name of a machine.
func newNode(name string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name), "-")
	if name == "" {
		name = "node"
	}
	suffix := make([]byte, 3)
	_, _ = rand.Read(suffix) // it never fails
	return name[:min(len(name), 32)] + "-" + hex.EncodeToString(suffix)
}

// validNode reports whether newNode could have made an id.
func validNode(node string) bool {
	return len(node) > 2 && len(node) <= 40 && !strings.ContainsFunc(node, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// readGossipKey reads 32 bytes. NotFound, Corrupt.
func readGossipKey(dir string) ([]byte, error) {
	key, err := pki.ReadSecret(dir, gossipFile)
	if err != nil {
		return nil, err
	}
	if len(key) != gossipKeyBytes {
		return nil, fault.New("trust.open", fault.Corrupt, "%s is damaged: restore it, or remove the folder", filepath.Join(dir, gossipFile))
	}
	return key, nil
}

const gossipKeyBytes = 32
