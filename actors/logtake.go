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
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.take(m)
	w.WriteHeader(http.StatusNoContent)
}

// postLines brings lines to the node that leads.
func (n *Nodes) postLines(ctx context.Context, m *messages.LinesPrinted) error {
	const op = "actors.log"
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	client, base, err := n.Client(n.Directory.Leader())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+logsPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fault.New(op, fault.Unavailable, "%w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fault.New(op, fault.Unavailable, "%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return nil
}
