package trust

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// exchangeTime is how long one try to join may take.
const exchangeTime = 10 * time.Second

// Newcomer is a node that wants to join.
type Newcomer struct {
	Dir      string // its folder, which Open reads from then on
	Machine  string // of whose name its id is made
	Token    string
	API      string // host:port of the API of a node of the cluster
	Protocol uint32
	Version  string
	// Waits is told why nobody answers yet, at once and again each while; nil: Join
	// tries once.
	Waits func(why error)
}

// Join gets a node its certificate from the leader whom the token is of. What
// stands in its folder is kept: a node that joins again has the same id; of one
// that is not let in nothing is left. What may get better by itself is tried again
// until ctx ends. Invalid: the token is none, or of another cluster, or unknown to
// the leader, or its time is over, or the address is not one of a server; Conflict:
// another protocol, or another process is that node; Unavailable: nobody answers.
func Join(ctx context.Context, n Newcomer) (*Identity, error) {
	fingerprint, secret, err := pki.ParseToken(pki.ForJoin, n.Token)
	if err != nil {
		return nil, err
	}
	i, err := hold(n.Dir)
	if err != nil {
		return nil, err
	}
	leave := i.Close
	if i.empty() {
		leave = i.discard
	}
	_, err = i.prepare(n.Machine)
	if err == nil {
		err = Insist(ctx, n.Waits, func() error { return i.join(ctx, n, fingerprint, secret) })
	}
	if err != nil {
		leave()
		return nil, err
	}
	return i, nil
}

const (
	retryPause = 500 * time.Millisecond // between two tries
	toldAgain  = 10 * time.Second
)

// Insist tries again what is Unavailable, until ctx ends, and tells waits why, at
// once and again each while; where waits is nil it tries once.
func Insist(ctx context.Context, waits func(why error), try func() error) error {
	var told time.Time
	for {
		err := try()
		if waits == nil || fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			return err
		}
		if time.Since(told) >= toldAgain {
			told = time.Now()
			waits(err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

func (i *Identity) join(ctx context.Context, n Newcomer, fingerprint [sha256.Size]byte, secret []byte) error {
	points, err := Discover(ctx, n.API, fingerprint)
	if err != nil {
		return err
	}
	csr, err := i.csr()
	if err != nil {
		return err
	}
	i.note.Join = n.API
	asked := request{Protocol: n.Protocol, Version: n.Version, CSR: csr}
	for _, point := range points {
		err = i.ask(ctx, point, fingerprint, asked, secret)
		if fault.KindOf(err) != fault.Unavailable {
			break
		}
	}
	if err != nil {
		return err
	}
	return i.load()
}

func (i *Identity) csr() ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: i.note.Node}}, i.key)
}

// ask joins at one address, and keeps what comes back.
func (i *Identity) ask(ctx context.Context, address string, fingerprint [sha256.Size]byte, asked request, secret []byte) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	config := pki.Pinned(fingerprint)
	config.NextProtos = []string{JoinProtocol}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return unreachable(address, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	state := conn.(*tls.Conn).ConnectionState()
	bound, err := bind(state, asked)
	if err != nil {
		return err
	}
	asked.Proof = prove(proofKey(secret), bound)
	got, err := exchange(conn, address, asked)
	if err != nil {
		return err
	}
	return i.keep(got, state, fingerprint, address)
}

// keep writes what the leader has said. The certificate comes last: it says that
// the rest is whole.
func (i *Identity) keep(got answer, state tls.ConnectionState, fingerprint [sha256.Size]byte, address string) error {
	cert, err := x509.ParseCertificate(got.Certificate)
	if err != nil || len(got.GossipKey) != gossipKeyBytes || !i.key.PublicKey.Equal(cert.PublicKey) {
		return fault.New("trust.join", fault.Corrupt, "%s answers with what is no certificate for this node: use the same version of troupe on both", address)
	}
	for _, root := range state.PeerCertificates {
		if pki.Fingerprint(root) == fingerprint {
			err = pki.SaveCertificate(i.dir, rootFile, root)
		}
	}
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(i.dir, gossipFile, got.GossipKey); err != nil {
		return err
	}
	i.note.Leader = address
	if err := i.savePrepared(); err != nil {
		return err
	}
	return pki.SaveCertificate(i.dir, certFile, cert)
}

// Renew gets the node its next certificate through a client that reaches the
// leader at that URL, if the one it has ends soon; at the leader it gives itself
// one. It reports whether there is a new one.
func (i *Identity) Renew(ctx context.Context, client *http.Client, leader string) (bool, error) {
	i.mu.Lock()
	old := pki.Old(i.cert, time.Now())
	i.mu.Unlock()
	if !old {
		return false, nil
	}
	cert, err := i.renewed(ctx, client, leader)
	if err != nil {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cert = cert
	return true, pki.SaveCertificate(i.dir, certFile, cert)
}

func (i *Identity) renewed(ctx context.Context, client *http.Client, leader string) (*x509.Certificate, error) {
	if i.authority != nil {
		return i.authority.issue(i.Node(), i.key.Public())
	}
	csr, err := i.csr()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request{CSR: csr})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, leader+RenewPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, unreachable(leader, err)
	}
	defer response.Body.Close()
	got, err := readAnswer(response, leader)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(got.Certificate)
	if err != nil || !i.key.PublicKey.Equal(cert.PublicKey) || cert.CheckSignatureFrom(i.root) != nil {
		return nil, fault.New("trust.renew", fault.Corrupt, "the leader answers with what is no certificate for this node")
	}
	return cert, nil
}

// exchange sends a request over a connection that is of one exchange.
func exchange(conn net.Conn, address string, asked request) (answer, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequest(http.MethodPost, "https://"+address+joinPath, bytes.NewReader(body))
	if err != nil {
		return answer{}, fault.New("trust.join", fault.Invalid, "address %q: %w", address, err)
	}
	if err := r.Write(conn); err != nil {
		return answer{}, unreachable(address, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return answer{}, unreachable(address, err)
	}
	defer response.Body.Close()
	return readAnswer(response, address)
}

func readAnswer(response *http.Response, address string) (got answer, err error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	if err != nil {
		return got, unreachable(address, err)
	}
	if response.StatusCode != http.StatusOK {
		var says httpfault.ErrorBody
		_ = json.Unmarshal(body, &says) // what is none says nothing
		return got, fault.New("trust.join", httpfault.KindOf(response.StatusCode, response.Header.Get(httpfault.Header)), "%s refuses: %s", address, says.Error)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return got, fault.New("trust.join", fault.Corrupt, "%s answers with what is no answer: %w", address, err)
	}
	return got, nil
}

// unreachable is the error about an address that does not answer, or is somebody
// else's, or nobody's: that does not get better by waiting.
func unreachable(address string, err error) error {
	lost, none := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, pki.ErrOtherAuthority) || errors.Is(err, errNodePort):
		return fault.New("trust.join", fault.Invalid, "%s: %w", address, err)
	case none && lost.IsNotFound:
		return fault.New("trust.join", fault.Invalid, "%s: there is no host of that name: check it: %w", address, err)
	}
	return fault.New("trust.join", fault.Unavailable, "%s: %w", address, err)
}
