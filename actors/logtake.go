package actors

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/messages"
)

// logsPath is where the node that leads takes what is printed on others.
const logsPath = "/logs"

// mostLines bounds a request of those, in bytes.
const mostLines = 2 * logPending

// logTaker takes in what functions print on other nodes, each line once.
type logTaker struct {
	add  func(python.Line)
	seen func(job string) // of jobs that have printed something

	mu    sync.Mutex // guards taken; held while lines are taken in, so that they are in order
	taken map[string]lastLines
}

// lastLines is the last that was taken in of a node.
type lastLines struct {
	boot string
	seq  uint64
}

func newLogTaker(add func(python.Line), seen func(string)) *logTaker {
	return &logTaker{add: add, seen: seen, taken: map[string]lastLines{}}
}

// take takes lines in, unless they were before.
func (t *logTaker) take(m *messages.LinesPrinted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.taken[m.GetNode()]; last.boot == m.GetBoot() && m.GetSeq() <= last.seq {
		return
	}
	t.taken[m.GetNode()] = lastLines{m.GetBoot(), m.GetSeq()}
	for _, f := range m.GetLines() {
		for line := range bytes.Lines(f.GetText()) {
			t.add(python.Line{JobID: f.GetJobId(), Index: int(f.GetFunction()), Text: string(bytes.TrimSuffix(line, []byte{'\n'}))})
		}
		t.seen(f.GetJobId())
	}
}

// ServeHTTP takes a LinesPrinted.
func (t *logTaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostLines))
	m := &messages.LinesPrinted{}
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		httpfault.Fail(w, fault.New("actors.log", fault.Invalid, "%w", err))
		return
	}
	t.take(m)
	w.WriteHeader(http.StatusNoContent)
}

// postLines brings lines to the node that leads.
func (n *Nodes) postLines(ctx context.Context, m *messages.LinesPrinted) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	response, err := n.askLeader(ctx, "actors.log", http.MethodPost, logsPath, body)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
