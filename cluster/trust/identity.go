package trust

import (
	"crypto/tls"
)

// Identity is what makes a process a node of a cluster: its name, which it
// keeps over restarts, its key and certificate, and the certificate of the
// authority. It is safe for concurrent use.
type Identity struct {
	node      string
	gossipKey []byte
	leader    string
	config    *tls.Config
}

// Node is the id of the node, unique in the cluster.
func (i *Identity) Node() string { return i.node }
