package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/messages"
)

const (
	linkQueue = 256              // frames that wait; more are lost
	linkIdle  = 30 * time.Second // without a frame a link ends
	linkPause = time.Second      // between tries to open one
	writeTime = 3 * time.Second  // that a frame may take
)

// signs are what links tell of the nodes at their other ends.
type signs interface {
	answered(node string, reply *messages.BeatReply)
	refusing(address string)
}

// links are the connections to other nodes over which frames go, one for each
// address, opened when they are needed.
type links struct {
	id    *trust.Identity
	signs signs

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex // guards open
	byAddr map[string]*link
}

// link is one of them.
type link struct {
	address string
	frames  chan []byte
}

func newLinks(id *trust.Identity, s signs) *links {
	ctx, cancel := context.WithCancel(context.Background())
	return &links{id: id, signs: s, ctx: ctx, cancel: cancel, byAddr: map[string]*link{}}
}

// send has a frame go to an address; it never waits. What cannot go is lost.
func (l *links) send(address string, f []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	to := l.byAddr[address]
	if to == nil {
		to = &link{address: address, frames: make(chan []byte, linkQueue)}
		l.byAddr[address] = to
		l.tasks.Go(func() { l.run(to) })
	}
	select {
	case to.frames <- f:
	default:
	}
}

// run sends the frames of a link until it has been idle for long.
func (l *links) run(to *link) {
	for {
		conn, err := l.open(to.address)
		if err == nil {
			l.pump(to, conn)
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			l.signs.refusing(to.address)
		}
		if !l.pause(to, err != nil) {
			return
		}
	}
}

// pause waits for a frame that is worth another connection; after a failure what
// waits is lost, and so is what comes within linkPause. It reports false where
// the link is over.
func (l *links) pause(to *link, failed bool) bool {
	if failed {
		select {
		case <-time.After(linkPause):
		case <-l.ctx.Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed {
		for len(to.frames) > 0 {
			<-to.frames
		}
	}
	if len(to.frames) == 0 || l.ctx.Err() != nil {
		delete(l.byAddr, to.address) // the next frame makes another one
		return false
	}
	return true
}

func (l *links) open(address string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTime)
	defer cancel()
	return dialGossip(ctx, l.id, address, "", opensLink)
}

// pump writes frames until the connection breaks or nothing comes for long, while
// it listens to what comes back.
func (l *links) pump(to *link, conn *tls.Conn) {
	broken := make(chan struct{})
	l.tasks.Go(func() {
		defer close(broken)
		l.hear(conn)
	})
	defer func() {
		_ = conn.Close()
		<-broken
	}()
	idle := time.NewTimer(linkIdle)
	defer idle.Stop()
	for {
		select {
		case f := <-to.frames:
			_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := conn.Write(f); err != nil {
				return
			}
			idle.Reset(linkIdle)
		case <-idle.C:
			return
		case <-broken:
			return
		case <-l.ctx.Done():
			l.flush(to, conn)
			return
		}
	}
}

// flush sends what waits, as a last word.
func (l *links) flush(to *link, conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime / 10))
	for len(to.frames) > 0 {
		if _, err := conn.Write(<-to.frames); err != nil {
			return
		}
	}
}

// hear reads answers until the connection ends.
func (l *links) hear(conn *tls.Conn) {
	node := trust.PeerOf(conn.ConnectionState())
	buffer := make([]byte, maxFrame)
	for {
		k, body, err := readFrame(conn, buffer)
		if err != nil {
			return
		}
		reply := &messages.BeatReply{}
		if k == replyFrame && proto.Unmarshal(body, reply) == nil {
			l.signs.answered(node, reply)
		}
	}
}

// close sends what waits and ends all links.
func (l *links) close() {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.tasks.Wait()
}
