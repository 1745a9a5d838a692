package python

import (
	"crypto/rand"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// helloTime is what a connection gets to say who it is.
const helloTime = 5 * time.Second

// hub is the socket that zygotes and workers connect to. It hands each
// connection to whoever waits for its token, and closes those nobody waits for.
type hub struct {
	listener *net.UnixListener
	path     string
	wg       sync.WaitGroup // of its goroutines

	mu      sync.Mutex // guards what follows
	waiting map[string]*arrival
	unknown map[*net.UnixConn]struct{} // that have not said hello yet; nil when closed
}

// arrival is a process that somebody waits for: its connections, by role, of
// which each comes once.
type arrival struct {
	token string
	all   chan struct{} // closed when all are there

	// For who waits, once all is closed.
	conns map[string]*net.UnixConn
	pid   int // as the kernel says

	roles []string // that there will be
}

type hello struct {
	Role  string `json:"role"`
	Token string `json:"token"`
}

// listen opens the hub's socket at path, in a folder that is private.
func listen(path string) (*hub, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fault.New("python.listen", fault.Unavailable, "listen for workers: %w", err)
	}
	h := &hub{listener: listener, path: path, waiting: map[string]*arrival{}, unknown: map[*net.UnixConn]struct{}{}}
	h.wg.Go(h.accept)
	return h, nil
}

func (h *hub) accept() {
	for {
		conn, err := h.listener.AcceptUnix()
		if err != nil {
			return // closed; nothing else ends a listener
		}
		h.wg.Go(func() {
			if !h.welcome(conn) {
				_ = conn.Close()
			}
		})
	}
}

// welcome reads a hello and reports whether the connection was waited for.
func (h *hub) welcome(conn *net.UnixConn) bool {
	h.mu.Lock()
	if h.unknown == nil {
		h.mu.Unlock()
		return false
	}
	h.unknown[conn] = struct{}{}
	h.mu.Unlock()

	_ = conn.SetDeadline(time.Now().Add(helloTime))
	var who hello
	err := child.ReadFrame(conn, &who)
	pid, perr := peer(conn)
	_ = conn.SetDeadline(time.Time{})

	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unknown, conn)
	return err == nil && perr == nil && h.handLocked(conn, who, pid)
}

// handLocked gives a connection to who waits for it, and reports whether
// somebody does.
func (h *hub) handLocked(conn *net.UnixConn, who hello, pid int) bool {
	a := h.waiting[who.Token]
	if a == nil || !slices.Contains(a.roles, who.Role) || a.conns[who.Role] != nil || (len(a.conns) > 0 && a.pid != pid) {
		return false
	}
	a.conns[who.Role], a.pid = conn, pid
	if len(a.conns) == len(a.roles) {
		delete(h.waiting, who.Token)
		close(a.all)
	}
	return true
}

// peer returns the process at the other end, as the kernel knows it.
func peer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// expect waits for a process with connections of those roles, and a token that
// only it is told.
func (h *hub) expect(roles ...string) *arrival {
	a := &arrival{token: rand.Text(), all: make(chan struct{}), conns: map[string]*net.UnixConn{}, roles: roles}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[a.token] = a
	return a
}

// forget stops waiting. What came, or comes later, is closed, and by that a
// worker ends itself.
func (h *hub) forget(a *arrival) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, a.token)
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

// close ends the hub. Connections that were handed over stay.
func (h *hub) close() {
	_ = h.listener.Close()
	h.mu.Lock()
	for conn := range h.unknown {
		_ = conn.Close()
	}
	h.unknown = nil
	h.mu.Unlock()
	h.wg.Wait()
}
