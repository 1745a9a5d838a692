package remote

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Loopback serves an exchange on this machine's loopback address, for a process
// that has no server of its own. It listens once a job's URL is asked for, so
// that nobody else needs a port. It is safe for concurrent use.
type Loopback struct {
	exchange *Exchange

	mu     sync.Mutex // guards the rest
	server *http.Server
	base   string
	served chan struct{} // closed when the server has returned
	closed bool
}

// NewLoopback returns a listener of e that does not listen yet. The caller closes
// it.
func NewLoopback(e *Exchange) *Loopback { return &Loopback{exchange: e} }

// URL returns where a job is served: it is a Config.URL. Unavailable: no port is
// to be had, or it is closed.
func (l *Loopback) URL(jobID string) (string, error) {
	const op = "remote.listen"
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return "", fault.New(op, fault.Unavailable, "the listener for functions is closed")
	case l.server == nil:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fault.New(op, fault.Unavailable, "listen for functions: %w", err)
		}
		l.base, l.served = "http://"+listener.Addr().String(), make(chan struct{})
		l.server = &http.Server{Handler: l.exchange, ReadHeaderTimeout: time.Minute}
		go func() {
			defer close(l.served)
			_ = l.server.Serve(listener) // ends with Close
		}()
	}
	return l.base + "/jobs/" + jobID, nil
}

// Close ends the listener and its connections, and waits for it. It may be called
// again.
func (l *Loopback) Close() error {
	l.mu.Lock()
	l.closed = true
	server, served := l.server, l.served
	l.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	<-served
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
