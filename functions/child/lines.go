package child

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLine is how long a line may get before it is cut, in bytes.
const maxLine = 64 << 10

// source is where lines come from: a socket or a pipe, not blocking.
type source interface {
	syscall.Conn
	Close() error
}

// Lines hands on what a process prints, line by line.
type Lines struct {
	conn  source
	raw   syscall.RawConn
	log   func(Line)
	Owner atomic.Pointer[Line] // whose lines they are now

	mu    sync.Mutex // guards what follows; held while log is called
	rest  []byte     // of a line whose end has not come
	total int64      // bytes that came
	tail  []byte     // the last of them
}

// tailBytes is how much of what a process printed is kept to explain its end.
const tailBytes = 4 << 10

// ReadLines reads conn until its end, or until Close. done is called after.
func ReadLines(conn source, owner Line, log func(Line), done func()) (*Lines, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &Lines{conn: conn, raw: raw, log: log}
	l.Owner.Store(&owner)
	go func() {
		defer done()
		_ = raw.Read(l.pump)
		l.flush()
	}()
	return l, nil
}

// pump takes all that there is, and reports whether it was the end.
func (l *Lines) pump(fd uintptr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(int(fd), buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil || n <= 0:
			return true
		default:
			l.takeLocked(buf[:n])
		}
	}
}

func (l *Lines) takeLocked(p []byte) {
	l.total += int64(len(p))
	l.tail = append(l.tail, p...)
	l.tail = l.tail[max(0, len(l.tail)-tailBytes):]
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0 && end <= maxLine:
			l.sayLocked(l.rest[:end])
			l.rest = l.rest[end+1:]
		case len(l.rest) > maxLine:
			l.sayLocked(l.rest[:maxLine])
			l.rest = l.rest[maxLine:]
		default:
			return
		}
	}
}

func (l *Lines) sayLocked(text []byte) {
	line := *l.Owner.Load()
	line.Text = strings.ToValidUTF8(strings.TrimSuffix(string(text), "\r"), "\uFFFD")
	l.log(line)
}

// Drain hands on what has come by now, and returns how many bytes ever came.
// When a process has said that it is done, or is dead, that is all it printed.
func (l *Lines) Drain() int64 {
	_ = l.raw.Control(func(fd uintptr) { l.pump(fd) })
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// flush hands on a last line that has no end.
func (l *Lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.sayLocked(l.rest)
		l.rest = nil
	}
}

// LastWords returns the last line that is not blank, after a colon, for the end
// of a text; "" when there is none.
func (l *Lines) LastWords() string {
	l.Drain()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := LastLine(strings.ToValidUTF8(string(l.tail), "\uFFFD"))
	if last == "" {
		return ""
	}
	return ": " + last
}

// Close hands on what has come, and stops reading.
func (l *Lines) Close() {
	l.Drain()
	l.flush()
	_ = l.conn.Close()
}

// LastLine returns the last line of text that is not blank: what a Python
// traceback ends with.
func LastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// Line is one line that a program wrote to its standard output or error,
// without its end, in valid UTF-8, at most 64 KiB long (a longer one comes in
// pieces).
type Line struct {
	JobID    string
	Function string // name
	Index    int    // function id, in [0, N); -1 while the program is imported for all
	Text     string
}
