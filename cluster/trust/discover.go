package trust

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
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
// without TLS. Invalid: it is of another authority; NotFound: it has no cluster;
// Unavailable.
func Discover(ctx context.Context, api string, fingerprint [sha256.Size]byte) ([]string, error) {
	const op = "trust.discover"
	host, _, err := net.SplitHostPort(api)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "address %q: give host:port, such as 10.0.0.1:8780", api)
	}
	point, err := getPoint(ctx, "https://"+api, pki.Pinned(fingerprint))
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain && loopback.Is(host) {
		point, err = getPoint(ctx, "http://"+api, nil)
	}
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(point.Address)
	if err != nil {
		return nil, fault.New(op, fault.NotFound, "%s is no server that nodes can join", api)
	}
	points := []string{point.Address}
	if through := net.JoinHostPort(host, port); through != point.Address { // the way that has worked just now
		points = append(points, through)
	}
	return points, nil
}

func getPoint(ctx context.Context, url string, config *tls.Config) (point Point, err error) {
	const op = "trust.discover"
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+PointPath, nil)
	if err != nil {
		return point, fault.New(op, fault.Invalid, "address %q: %w", url, err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return point, unreachable(url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	if err != nil {
		return point, unreachable(url, err)
	}
	if response.StatusCode != http.StatusOK || json.Unmarshal(body, &point) != nil {
		kind := fault.NotFound
		if response.StatusCode >= 500 {
			kind = fault.Unavailable // it starts, or ends
		}
		return point, fault.New(op, kind, "%s is no server that nodes can join (status %d)", url, response.StatusCode)
	}
	return point, nil
}
