package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/pki"
)

const (
	// JoinProtocol is what a client that wants to join offers a node listener.
	JoinProtocol = "troupe-join"

	joinPath  = "/join"
	RenewPath = "/cluster/renew" // where nodes get their next certificate

	maxRequest = 64 << 10 // bytes
	// exporter makes the proof one of this connection, see tls.ConnectionState.ExportKeyingMaterial.
	exporter = "EXPORTER-troupe-join"
)

// request is what a node sends that wants to join, or a new certificate.
type request struct {
	Protocol uint32 `json:"protocol"`
	Version  string `json:"version"`
	CSR      []byte `json:"csr"`   // names the node; of it the public key is taken, and nothing else
	Proof    []byte `json:"proof"` // that the sender has the token, see bind; unset in a renewal
}

// answer lets a node in.
type answer struct {
	Certificate []byte `json:"certificate"`
	GossipKey   []byte `json:"gossip_key,omitempty"`
}

// bind is what a proof is of: a request on this one connection.
func bind(state tls.ConnectionState, r request) ([]byte, error) {
	key, err := state.ExportKeyingMaterial(exporter, nil, 32)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(key, r.Protocol), r.CSR...), nil
}

// Joins returns the handler for connections of JoinProtocol, at a leader that
// speaks that protocol and is of that version.
func (a *Authority) Joins(log *zap.Logger, protocol uint32, version string) http.Handler {
	return a.handler(log, "join", func(r *http.Request, asked request) (answer, error) {
		if r.URL.Path != joinPath {
			return answer{}, fault.New("trust.join", fault.NotFound, "there is no %s here", r.URL.Path)
		}
		bound, err := bind(*r.TLS, asked)
		if err != nil {
			return answer{}, err
		}
		if err := a.check(asked.Proof, bound, time.Now()); err != nil {
			return answer{}, err
		}
		if asked.Protocol != protocol {
			return answer{}, OtherProtocol("this node", asked.Protocol, asked.Version, "the leader", protocol, version)
		}
		return a.admit(asked, "")
	})
}

// Renewals returns the handler for RenewPath, on connections of nodes.
func (a *Authority) Renewals(log *zap.Logger) http.Handler {
	return a.handler(log, "renewal", func(r *http.Request, asked request) (answer, error) { return a.admit(asked, PeerOf(*r.TLS)) })
}

// OtherProtocol is the error about two that do not understand each other.
func OtherProtocol(a string, protocolA uint32, versionA, b string, protocolB uint32, versionB string) error {
	return fault.New("trust.protocol", fault.Conflict, "%s is troupe %s, which speaks protocol %d; %s is troupe %s, which speaks protocol %d: use the same version of troupe on both",
		a, versionA, protocolA, b, versionB, protocolB)
}

// admit signs; a renewal is of the node that asks.
func (a *Authority) admit(asked request, renews string) (answer, error) {
	const op = "trust.admit"
	csr, err := x509.ParseCertificateRequest(asked.CSR)
	if err != nil || csr.CheckSignature() != nil {
		return answer{}, fault.New(op, fault.Invalid, "the request for a certificate is damaged")
	}
	node := csr.Subject.CommonName
	if !validNode(node) {
		return answer{}, fault.New(op, fault.Invalid, "node id %.50q is none: up to 40 of a-z, 0-9 and -", node)
	}
	if renews != "" && renews != node {
		return answer{}, fault.New(op, fault.Invalid, "node %s asks for a certificate of node %s", renews, node)
	}
	cert, err := a.issue(node, csr.PublicKey)
	if err != nil {
		return answer{}, err
	}
	if renews != "" {
		return answer{Certificate: cert.Raw}, nil
	}
	return answer{Certificate: cert.Raw, GossipKey: a.gossipKey}, nil
}

func (a *Authority) handler(log *zap.Logger, what string, serve func(*http.Request, request) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		got, err := func() (answer, error) {
			const op = "trust.request"
			if r.Method != http.MethodPost || r.TLS == nil {
				return answer{}, fault.New(op, fault.Invalid, "%s %s is not a request to join", r.Method, r.URL.Path)
			}
			var asked request
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
			if err == nil {
				err = json.Unmarshal(body, &asked)
			}
			if err != nil {
				return answer{}, fault.New(op, fault.Invalid, "the request is damaged: %w", err)
			}
			return serve(r, asked)
		}()
		if err != nil {
			log.Warn(what+" refused", zap.String("remote", r.RemoteAddr), zap.Error(err))
			w.Header().Set(httpfault.Header, fault.KindOf(err).String())
			reply(w, httpfault.Status(fault.KindOf(err)), httpfault.NewErrorBody(httpfault.Status(fault.KindOf(err)), err))
			return
		}
		cert, _ := x509.ParseCertificate(got.Certificate)
		log.Info(what+" granted", zap.String("remote", r.RemoteAddr), zap.String("peer", pki.NodeOf(cert)))
		reply(w, http.StatusOK, got)
	})
}

func reply(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	_ = json.NewEncoder(&body).Encode(v) // of types that encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // who does not read it asks again
}
