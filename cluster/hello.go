package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/pki"
)

const (
	helloPath = "/cluster/hello"
	helloTime = 10 * time.Second
	// otherTime is how long one that was at another address before has to show that
	// it still is. With handshakeTime it is below helloTime.
	otherTime = 2 * time.Second
)

// hello is what a node says first to the one that it joins, and what comes back.
type hello struct {
	Address  string `json:"address"`            // host:port of the sender's node listener
	Remoting string `json:"remoting,omitempty"` // host:port of its actors, once they listen
	Protocol uint32 `json:"protocol"`
	Version  string `json:"version"`
	Leader   string `json:"leader,omitempty"` // host:port of the leader's node listener
}

// handler answers what the cluster's own nodes ask of each other; the rest is
// for the Handler of Config.
func (c *Cluster) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+helloPath, func(w http.ResponseWriter, r *http.Request) {
		answer, err := c.greeted(w, r)
		if err != nil {
			kind := fault.KindOf(err)
			c.log.Warn("node refused", zap.String("peer", PeerOf(r)), zap.String("remote", r.RemoteAddr), zap.Error(err))
			w.Header().Set(httpfault.Header, kind.String())
			w.WriteHeader(httpfault.Status(kind))
			_ = json.NewEncoder(w).Encode(httpfault.NewErrorBody(httpfault.Status(kind), err))
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	if a := c.id.Authority(); a != nil {
		mux.Handle(trust.RenewPath, a.Renewals(c.log))
	}
	if c.config.Handler != nil {
		mux.Handle("/", c.config.Handler)
	}
	return mux
}

// greeted takes the word of a node that joins, and looks whether it can be
// reached: the others could not speak to it otherwise.
func (c *Cluster) greeted(w http.ResponseWriter, r *http.Request) (hello, error) {
	const op = "cluster.hello"
	var said hello
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFrame))
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		return hello{}, fault.New(op, fault.Invalid, "the greeting is damaged: %w", err)
	}
	node := PeerOf(r)
	if said.Protocol != Protocol {
		return hello{}, trust.OtherProtocol("node "+node, said.Protocol, said.Version, "node "+c.Self(), Protocol, c.config.Version)
	}
	if address, err := c.reaches(r.Context(), node, said); err != nil {
		return hello{}, fault.New(op, fault.Unavailable, "node %s is not reached at %s: open that port there, or say with --advertise and --node-listen where it is reached; a node that can only call out cannot work: %w",
			node, address, err)
	}
	if other := c.other(r.Context(), node, said.Address); other != "" {
		return hello{}, fault.New(op, fault.Conflict, "node %s runs at %s already: its folder of certificates was copied; start this one with another --tls-dir, and a token", node, other)
	}
	return c.greeting(), nil
}

// other is where a node runs already that says hello from an address, "" where it
// does not: there it has shown its certificate just now.
func (c *Cluster) other(ctx context.Context, node, address string) string {
	c.mu.Lock()
	at := c.known[node].address
	c.mu.Unlock()
	if node == c.Self() {
		at = c.Address()
	}
	if at == "" || at == address {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, otherTime)
	defer cancel()
	conn, err := dial(ctx, c.id, at, node, httpProtocol)
	if err != nil {
		return "" // it was there, in a life before
	}
	_ = conn.Close()
	return at
}

// greeting is what a node says of itself.
func (c *Cluster) greeting() hello {
	c.mu.Lock()
	remoting := c.facts.GetRemoting()
	c.mu.Unlock()
	return hello{Address: c.Address(), Remoting: remoting, Protocol: Protocol, Version: c.config.Version, Leader: c.leaderAddress()}
}

// reaches looks whether a node can be reached where it says that it is, and names
// an address where it is not.
func (c *Cluster) reaches(ctx context.Context, node string, said hello) (address string, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	for address, protocol := range map[string]string{said.Address: httpProtocol, said.Remoting: remotingProtocol} {
		if address == "" {
			continue
		}
		conn, err := dial(ctx, c.id, address, node, protocol)
		if err != nil {
			return address, err
		}
		_ = conn.Close()
	}
	return "", nil
}

// greet says hello at an address, and looks whether who answers can be reached
// where it says that it is: the gossip knows no other address of it.
func (c *Cluster) greet(ctx context.Context, address string) (answer hello, err error) {
	const op = "cluster.hello"
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	body, err := json.Marshal(c.greeting())
	if err != nil {
		return answer, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+helloPath, bytes.NewReader(body))
	if err != nil {
		return answer, fault.New(op, fault.Invalid, "address %q: %w", address, err)
	}
	transport := newTransportTo(c.id, "")
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer, fault.New(op, fault.Unavailable, "node listener %s: %w", address, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxFrame))
	if err != nil {
		return answer, fault.New(op, fault.Unavailable, "node listener %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		var says httpfault.ErrorBody
		_ = json.Unmarshal(body, &says) // what is none says nothing
		return answer, fault.New(op, httpfault.KindOf(response.StatusCode, response.Header.Get(httpfault.Header)), "%s refuses this node: %s", address, says.Error)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fault.New(op, fault.Corrupt, "%s answers with what is no greeting: %w", address, err)
	}
	node := trust.PeerOf(*response.TLS)
	if at, err := c.reaches(ctx, node, answer); err != nil {
		return answer, fault.New(op, fault.Unavailable, "node %s answers at %s but says that it is at %s, where it is not reached: open that port there, or start it with --advertise: %w",
			node, address, at, err)
	}
	return answer, nil
}

// find looks for the leader until it has answered, or ctx ends.
func (c *Cluster) find(ctx context.Context) error {
	return trust.Insist(ctx, func(why error) {
		c.log.Info("the leader is not reached yet", zap.Error(why))
		if c.config.Waits != nil {
			c.config.Waits(why)
		}
	}, func() error { return c.findOnce(ctx) })
}

// reached has the leader look whether it reaches this node's actors.
func (c *Cluster) reached() error {
	ctx, cancel := context.WithTimeout(context.Background(), helloTime)
	defer cancel()
	return trust.Insist(ctx, func(why error) { c.log.Info("the leader does not reach this node yet", zap.Error(why)) }, func() error {
		leader, _ := c.id.Leader()
		_, err := c.greet(ctx, leader)
		return err
	})
}

// findOnce tries where the leader was last, and where the API says it is.
func (c *Cluster) findOnce(ctx context.Context) error {
	const op = "cluster.find"
	last, api := c.id.Leader()
	found, why := trust.Discover(ctx, api, c.id.Fingerprint())
	for _, address := range append([]string{last}, found...) {
		if address == "" {
			continue
		}
		answer, err := c.greet(ctx, address)
		if err != nil {
			if fault.KindOf(err) != fault.Unavailable {
				return err
			}
			why = errors.Join(why, err)
			continue
		}
		if _, err := c.gossip.Join([]string{address}); err != nil {
			why = errors.Join(why, fault.New(op, fault.Unavailable, "%s takes no part in the gossip: %w", address, err))
			continue
		}
		return c.id.SetLeader(answer.Address) // where others reach it too
	}
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	if _, foreign := errors.AsType[x509.UnknownAuthorityError](why); foreign && len(found) > 0 || errors.Is(why, pki.ErrOtherAuthority) {
		return fault.New(op, fault.Invalid, "the cluster that this node was of is not there any more: %s; to join the one that is give --token or --token-file", text)
	}
	return fault.New(op, fault.Unavailable, "the leader is not reached: %s", text)
}
