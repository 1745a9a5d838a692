// Package sse is a stream of server-sent events: what the server and the
// standalone job write, and those read who follow them.
package sse

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Media is the type of such a stream.
const Media = "text/event-stream"

// maxLine is how long a line may be that is read, in bytes.
const maxLine = 16 << 20

// Event is one event: its data is one line. Without a name it is a heartbeat.
type Event struct {
	ID   string // "": it has none, and who comes back goes on behind an earlier one
	Name string
	Data []byte
}

// Writer writes events and heartbeats, each whole. It is safe for concurrent
// use.
type Writer struct {
	mu    sync.Mutex // guards the rest
	to    io.Writer
	flush func() error
	err   error // of the first write that failed
}

// NewWriter begins a stream; flush sends what was written. Whether somebody is
// there Failed says.
func NewWriter(to io.Writer, flush func() error) *Writer {
	w := &Writer{to: to, flush: flush}
	_ = w.write("retry: 1000\n\n")
	return w
}

// Send writes an event. After an error all else fails with it.
func (w *Writer) Send(e Event) error {
	var b strings.Builder
	if e.ID != "" {
		fmt.Fprintf(&b, "id: %s\n", e.ID)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Name, e.Data)
	return w.write(b.String())
}

// Failed reports whether nobody reads any more.
func (w *Writer) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

func (w *Writer) write(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = io.WriteString(w.to, text)
	}
	if w.err == nil {
		w.err = w.flush()
	}
	return w.err
}

// While does something that sends, and has the stream beat beside it, so that
// both ends know of each other.
func (w *Writer) While(ctx context.Context, every time.Duration, do func() error) error {
	return Beating(ctx, every, func() { _ = w.write(": alive\n\n") }, do)
}

// Beating does something, and beats now and then beside it until that is done or
// ctx ends.
func Beating(ctx context.Context, every time.Duration, beat func(), do func() error) error {
	beating, stop := context.WithCancel(ctx)
	alive := sync.WaitGroup{}
	alive.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-ticker.C:
				beat()
			}
		}
	})
	defer alive.Wait()
	defer stop()
	return do()
}

// Read calls on with each event as it comes, heartbeats too, until on fails, and
// returns that error; else why there is no more: io.ErrUnexpectedEOF where the
// stream just ends, which is for its events to say.
func Read(from io.Reader, on func(Event) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	var e Event
	for lines.Scan() {
		if line := lines.Bytes(); len(line) > 0 {
			e.add(line)
			continue
		}
		if err := on(e); err != nil {
			return err
		}
		e = Event{}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (e *Event) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "id":
		e.ID = string(value)
	case "event":
		e.Name = string(value)
	case "data":
		e.Data = append(e.Data, value...)
	}
}
