package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
)

// wireBuffer is what a connection reads and writes at once, in bytes.
const wireBuffer = 256 << 10

// client reaches one node at one address.
type client struct {
	http      *http.Client
	transport *http.Transport
	address   string
}

// newTransportTo returns what speaks HTTP/1.1, which is faster here than 2, to
// the node of that id alone, any if it is "".
func newTransportTo(id *trust.Identity, node string) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     id.ClientTLS(node, httpProtocol),
		DialContext:         func(ctx context.Context, _, address string) (net.Conn, error) { return dialTCP(ctx, address) },
		TLSHandshakeTimeout: handshakeTime,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: linkIdle,
		ReadBufferSize: wireBuffer, WriteBufferSize: wireBuffer, DisableCompression: true,
	}
}

func newClient(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Client returns what reaches the Handler of another node, and the URL that paths
// are appended to: HTTP/1.1 over TLS of both sides, to that very node. Its
// connections are shared with other callers and close with the cluster, or when
// the node is gone. NotFound while Members does not list the node.
func (c *Cluster) Client(node string) (*http.Client, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, is := c.table.members[node]
	if !is || c.closed {
		return nil, "", fault.New("cluster.client", fault.NotFound, "there is no node %s now", node)
	}
	to := c.clients[node]
	if to == nil || to.address != m.Address {
		if to != nil {
			to.transport.CloseIdleConnections()
		}
		t := newTransportTo(c.id, node)
		to = &client{http: newClient(t), transport: t, address: m.Address}
		c.clients[node] = to
	}
	return to.http, "https://" + m.Address, nil
}

// dropClientLocked forgets how a node was reached.
func (c *Cluster) dropClientLocked(node string) {
	if to := c.clients[node]; to != nil {
		to.transport.CloseIdleConnections()
		delete(c.clients, node)
	}
}

// PeerOf is the node that has sent a request to a Handler, as its certificate
// says.
func PeerOf(r *http.Request) string {
	if r.TLS == nil {
		return ""
	}
	return trust.PeerOf(*r.TLS)
}

// secured hides from net/http that a connection is one of TLS: it would not serve
// a protocol of another name than its own.
type secured struct{ net.Conn }

func newHTTPServer(h http.Handler) *http.Server {
	type key struct{}
	return &http.Server{
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * linkIdle, MaxHeaderBytes: maxFrame,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			state := conn.(secured).Conn.(*tls.Conn).ConnectionState()
			return context.WithValue(ctx, key{}, &state)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.TLS = r.Context().Value(key{}).(*tls.ConnectionState)
			h.ServeHTTP(w, r)
		}),
	}
}
