package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// linkSilence is how long a link that others have opened may say nothing.
const linkSilence = 2 * linkIdle

// callee answers what comes over links that others have opened.
type callee interface {
	beat(node string, b *messages.Beat) *messages.BeatReply
	goodbye(node string, g *messages.Goodbye)
}

// transport carries the gossip: packets as frames on links, streams as
// connections of their own. It implements memberlist.NodeAwareTransport.
type transport struct {
	id      *trust.Identity
	links   *links
	callee  callee
	address *net.TCPAddr // as others reach it
	log     *zap.Logger

	packets chan *memberlist.Packet
	streams chan net.Conn
	once    sync.Once
	done    chan struct{}
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(id *trust.Identity, l *links, to callee, address *net.TCPAddr, log *zap.Logger) *transport {
	return &transport{
		id: id, links: l, callee: to, address: address, log: sparing(log),
		packets: make(chan *memberlist.Packet, linkQueue), streams: make(chan net.Conn), done: make(chan struct{}),
	}
}

// FinalAdvertiseAddr says where others reach this node.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.address.IP, t.address.Port, nil
}

// WriteTo sends a packet, or loses it.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	if len(b) > maxFrame {
		return time.Time{}, fault.New("cluster.write", fault.Invalid, "a packet of %d bytes is above %d", len(b), maxFrame)
	}
	now := time.Now()
	t.links.send(address, frame(packetFrame, b))
	return now, nil
}

// WriteToAddress sends a packet, or loses it.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// PacketCh is where packets arrive.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout opens a stream.
func (t *transport) DialTimeout(address string, patience time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: address}, patience)
}

// DialAddressTimeout opens a stream to that very node.
func (t *transport) DialAddressTimeout(a memberlist.Address, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := dialGossip(ctx, t.id, a.Addr, a.Name, opensStream)
	if err != nil {
		return nil, err // not conn: a nil *tls.Conn is no nil net.Conn
	}
	return conn, nil
}

// dialGossip opens a connection of that kind, by its first byte, to a node, any if
// it is "".
func dialGossip(ctx context.Context, id *trust.Identity, address, node string, opens byte) (*tls.Conn, error) {
	conn, err := dial(ctx, id, address, node, gossipProtocol)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{opens}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// StreamCh is where streams arrive.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown ends what memberlist uses.
func (t *transport) Shutdown() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// accept is the door for gossip connections. It owns the connection.
func (t *transport) accept(conn *tls.Conn) {
	node := trust.PeerOf(conn.ConnectionState())
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTime))
	var first [1]byte
	if _, err := conn.Read(first[:]); err != nil {
		_ = conn.Close()
		return
	}
	switch first[0] {
	case opensStream:
		_ = conn.SetReadDeadline(time.Time{}) // memberlist sets its own
		select {
		case t.streams <- conn:
		case <-t.done:
			_ = conn.Close()
		}
	case opensLink:
		if err := t.read(node, conn); err != nil {
			t.log.Warn("link cut", zap.String("peer", node), zap.Error(err))
		}
		_ = conn.Close()
	default:
		t.log.Warn("link cut: it begins with nothing of ours", zap.String("peer", node), zap.Uint8("byte", first[0]))
		_ = conn.Close()
	}
}

// read takes frames until the link ends; an error says that what came was none.
func (t *transport) read(node string, conn *tls.Conn) error {
	buffer := make([]byte, maxFrame)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(linkSilence))
		k, body, err := readFrame(conn, buffer)
		if err != nil {
			if fault.KindOf(err) == fault.Corrupt {
				return err
			}
			return nil
		}
		switch k {
		case packetFrame:
			packet := &memberlist.Packet{Buf: append([]byte(nil), body...), From: conn.RemoteAddr(), Timestamp: time.Now()}
			select {
			case t.packets <- packet:
			case <-t.done:
				return nil
			}
		case beatFrame:
			beat := &messages.Beat{}
			if err := proto.Unmarshal(body, beat); err != nil {
				return fault.New("cluster.beat", fault.Corrupt, "a beat is damaged: %w", err)
			}
			reply, err := proto.Marshal(t.callee.beat(node, beat))
			if err != nil {
				return err
			}
			_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := conn.Write(frame(replyFrame, reply)); err != nil {
				return nil
			}
		case goodbyeFrame:
			bye := &messages.Goodbye{}
			if err := proto.Unmarshal(body, bye); err != nil {
				return fault.New("cluster.goodbye", fault.Corrupt, "a goodbye is damaged: %w", err)
			}
			t.callee.goodbye(node, bye)
		case replyFrame:
			return fault.New("cluster.link", fault.Corrupt, "an answer comes where nothing was asked")
		}
	}
}

// resolve finds the one address by which other nodes reach this one.
func resolve(ctx context.Context, host string, port int) (*net.TCPAddr, error) {
	const op = "cluster.advertise"
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(ips) == 0 {
		return nil, fault.New(op, fault.Invalid, "advertise %q: it has no address: give the name or address by which other nodes reach this one: %w", host, err)
	}
	if ips[0].IP.IsUnspecified() {
		return nil, fault.New(op, fault.Invalid, "advertise %q: nobody can reach that: give the name or address by which other nodes reach this one", host)
	}
	return &net.TCPAddr{IP: ips[0].IP, Port: port}, nil
}

func joined(ip net.IP, port int) string { return net.JoinHostPort(ip.String(), strconv.Itoa(port)) }
