package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	gossipProtocol = "troupe-gossip"
	httpProtocol   = "http/1.1"
	// remotingProtocol is that of actors' messages, on their own port.
	remotingProtocol = "h2"

	// handshakeTime is how long a stranger may take to say who it is, and
	// maxHandshakes how many may be at it: what is above that is turned away.
	handshakeTime = 5 * time.Second
	maxHandshakes = 512

	// deadTime is how long what was sent may stay without a sign that it arrived.
	deadTime = 10 * time.Second
)

// doors are where a connection goes that has shown who it is, by its protocol.
type doors map[string]func(*tls.Conn)

// listener is the one over which all comes in but actors' messages.
type listener struct {
	inner  net.Listener
	config *tls.Config
	doors  doors
	log    *zap.Logger // that does not say the same too often

	places chan struct{} // one for each handshake
	tasks  sync.WaitGroup

	mu     sync.Mutex // guards open and closed
	open   map[net.Conn]bool
	closed bool
}

// sparing returns a log in which strangers cannot fill a disk: ten lines a
// second of one text.
func sparing(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 10, 0)
	}))
}

// listen takes an address; with port 0 the port that is preferred, if it is free.
// Conflict, Invalid.
func listen(address string, preferred int) (net.Listener, error) {
	const op = "cluster.listen"
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "node-listen %q: give host:port, such as 0.0.0.0:8790: %w", address, err)
	}
	if port == "0" && preferred != 0 {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(preferred))); err == nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New(op, fault.Conflict, "listen for nodes on %s: another process does: end it, or give another --node-listen", address)
	}
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "listen for nodes on %s: %w", address, err)
	}
	return l, nil
}

func newListener(inner net.Listener, config *tls.Config, d doors, log *zap.Logger) *listener {
	return &listener{inner: inner, config: config, doors: d, log: sparing(log), places: make(chan struct{}, maxHandshakes), open: map[net.Conn]bool{}}
}

// serve lets in until close.
func (l *listener) serve() {
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			l.log.Warn("node listener", zap.Error(err))
			time.Sleep(50 * time.Millisecond) // out of files: some are closed meanwhile
			continue
		}
		select {
		case l.places <- struct{}{}:
		default:
			l.log.Warn("connection refused: too many strangers at once", zap.Stringer("remote", conn.RemoteAddr()))
			_ = conn.Close()
			continue
		}
		if !l.enter(conn) {
			<-l.places
			return
		}
	}
}

// enter has a connection say who it is, beside the others.
func (l *listener) enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	l.open[conn] = true
	l.tasks.Go(func() {
		defer func() {
			l.mu.Lock()
			delete(l.open, conn)
			l.mu.Unlock()
		}()
		secured, door := l.greet(conn)
		<-l.places
		if door == nil {
			_ = conn.Close()
			return
		}
		door(secured)
	})
	return true
}

// greet shakes hands. The door is nil where the other one may not come in.
func (l *listener) greet(conn net.Conn) (*tls.Conn, func(*tls.Conn)) {
	watch(conn)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	secured := tls.Server(conn, l.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		l.log.Warn("connection refused", zap.Stringer("remote", conn.RemoteAddr()), zap.Error(err))
		return nil, nil
	}
	state := secured.ConnectionState()
	door := l.doors[state.NegotiatedProtocol]
	if door == nil {
		l.log.Warn("connection refused: it speaks no protocol of ours", zap.Stringer("remote", conn.RemoteAddr()),
			zap.String("peer", trust.PeerOf(state)), zap.String("protocol", state.NegotiatedProtocol))
	}
	return secured, door
}

// close ends every connection, and returns when nobody handles one.
func (l *listener) close() {
	_ = l.inner.Close()
	l.mu.Lock()
	l.closed = true
	for conn := range l.open {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.tasks.Wait()
}

// watch finds out about links that are dead: keepalives while nothing is sent,
// a time limit while something is.
func watch(conn net.Conn) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}) // without it it takes longer
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadTime.Milliseconds()))
		})
	}
}

// dialTCP opens a connection that watch looks after.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: handshakeTime}).DialContext(ctx, "tcp", address)
	if err == nil {
		watch(conn)
	}
	return conn, err
}

// dial opens a connection to a node, any if it is "", at an address.
func dial(ctx context.Context, id *trust.Identity, address, node, protocol string) (*tls.Conn, error) {
	conn, err := dialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, id.ClientTLS(node, protocol))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// queue is a net.Listener of connections that somebody else has accepted.
type queue struct {
	address net.Addr
	conns   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

func newQueue(address net.Addr) *queue {
	return &queue{address: address, conns: make(chan net.Conn), done: make(chan struct{})}
}

// give hands a connection on.
func (q *queue) give(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.done:
		_ = conn.Close()
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.address }
