package actors

import (
	"bytes"
	"context"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// askLeader makes a request to what the node that leads serves other nodes. The
// caller closes the body. Errors are of the kind that the answer tells; Unavailable
// where there was none.
func (n *Nodes) askLeader(ctx context.Context, op, method, path string, body []byte) (*http.Response, error) {
	client, base, err := n.Client(n.Directory.Leader())
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "the node that leads is not there: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fault.New(op, fault.Unavailable, "%w", err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	err = httpfault.Failure(response)
	return nil, fault.New(op, fault.KindOf(err), "%w", err)
}
