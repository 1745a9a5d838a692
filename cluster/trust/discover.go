package trust

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/loopback"
	"github.com/troupe-ml/troupe/internal/pki"
)

// PointPath is where the API of a node says where to join, to anybody.
const PointPath = "/cluster/join"

// Point is where a cluster is to be joined.
type Point struct {
	Address  string `json:"address" doc:"host:port of the node listener of the leader"`
	Protocol uint32 `json:"protocol" doc:"what the nodes speak"`
	Version  string `json:"version" doc:"of troupe"`
}

// Discover asks the API at an address, host:port, where the leader is, and
// returns where that may be reached, best first. A server of another authority
// than that with the fingerprint is not believed; on loopback it may be one
// without TLS. Invalid: it is of another authority, or no API of troupe, or there
// is no such host; NotFound: it has no cluster; Unavailable: it may yet answer.
func Discover(ctx context.Context, api string, fingerprint [sha256.Size]byte) ([]string, error) {
	const op = "trust.discover"
	host, _, err := net.SplitHostPort(api)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "address %q: give host:port, such as 10.0.0.1:8780", api)
	}
	point, err := getPoint(ctx, "https://"+api, api, pinnedAPI(fingerprint))
	if header, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		switch {
		case string(header.RecordHeader[:]) != "HTTP/":
			err = noAPI(api, "what it answers is not TLS")
		case !loopback.Is(host):
			err = noAPI(api, "it speaks HTTP without TLS, which troupe speaks with its own machine alone")
		default:
			point, err = getPoint(ctx, "http://"+api, api, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(point.Address)
	if err != nil {
		return nil, noAPI(api, "its answer names no address")
	}
	points := []string{point.Address}
	if through := net.JoinHostPort(host, port); through != point.Address { // the way that has worked just now
		points = append(points, through)
	}
	return points, nil
}

// noAPI is the error about an address where somebody else answers.
func noAPI(api, why string) error {
	return fault.New("trust.discover", fault.Invalid, "%s is no server of troupe: %s: give the address of its --listen, which troupe up prints behind --join", api, why)
}

// errNodePort is behind the error of who meets the listener for nodes.
var errNodePort = errors.New("nodes speak to each other there: give the address of the server's --listen, port 8780 unless said otherwise")

// pinnedAPI is pki.Pinned for what is no listener for nodes.
func pinnedAPI(fingerprint [sha256.Size]byte) *tls.Config {
	config := pki.Pinned(fingerprint)
	verify := config.VerifyConnection
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return err
		}
		if PeerOf(s) != "" {
			return errNodePort
		}
		return nil
	}
	return config
}

func getPoint(ctx context.Context, url, api string, config *tls.Config) (point Point, err error) {
	const op = "trust.discover"
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+PointPath, nil)
	if err != nil {
		return point, fault.New(op, fault.Invalid, "address %q: %w", api, err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return point, unreachable(api, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	if err != nil {
		return point, unreachable(api, err)
	}
	var says httpfault.ErrorBody
	switch status := response.StatusCode; {
	case status == http.StatusOK && json.Unmarshal(body, &point) == nil:
		return point, nil
	case status >= 500: // it starts, or ends
		return point, fault.New(op, fault.Unavailable, "%s answers with status %d", api, status)
	case response.Header.Get(httpfault.Header) != "": // it is a server of troupe
		_ = json.Unmarshal(body, &says) // what is none says nothing
		return point, fault.New(op, httpfault.KindOf(status, response.Header.Get(httpfault.Header)), "%s: %s", api, says.Error)
	default:
		return point, noAPI(api, fmt.Sprintf("it answers with status %d to GET %s", status, PointPath))
	}
}
