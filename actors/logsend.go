package actors

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/messages"
)

const (
	logSendGap  = 300 * time.Millisecond // between two times that lines are sent
	logSendTime = 2 * time.Second        // that one of them may take
	logSendSize = 256 << 10              // bytes that are sent at once, and hold up who prints more
	logPending  = 8 << 20                // and that wait for a leader that is away: what comes then is lost
)

// logSender brings what functions print on this node to the node that leads, which
// keeps the logs of all: in order, and each line once as long as that node lives. It
// is safe for concurrent use.
type logSender struct {
	node, boot string
	post       func(context.Context, *messages.LinesPrinted) error
	log        *zap.Logger
	now        func() time.Time

	sending sync.Mutex // held while something is sent; taken before mu

	mu      sync.Mutex                // guards the rest
	unsent  *messages.LinesPrinted    // that was sent and not acknowledged; nil: none
	pending map[logName]*bytes.Buffer // by function
	order   []logName                 // of those, oldest first
	bytes   int                       // of pending
	lost    map[logName]int           // lines for which there was no room, since the last that there was
	away    bool                      // the leader did not take the last ones
	said    actorkit.Sparse
	seq     uint64
}

func newLogSender(node, boot string, post func(context.Context, *messages.LinesPrinted) error, log *zap.Logger, now func() time.Time) *logSender {
	return &logSender{node: node, boot: boot, post: post, log: log, now: now, pending: map[logName]*bytes.Buffer{}, lost: map[logName]int{}}
}

// add takes a line. It may send some, which holds its caller up: a program cannot
// print faster than its log is taken. While nobody takes it, it is held up by nothing.
func (s *logSender) add(line python.Line) {
	if line.JobID == "" {
		return
	}
	s.mu.Lock()
	name := logName{line.JobID, line.Index}
	if s.bytes+len(line.Text) < logPending {
		if n := s.lost[name]; n > 0 {
			delete(s.lost, name)
			s.putLocked(name, fmt.Sprintf("(%d lines are left out: the node that leads did not take them)", n))
		}
		s.putLocked(name, line.Text)
	} else {
		s.lost[name]++
	}
	full := s.bytes >= logSendSize && !s.away
	s.mu.Unlock()
	if full {
		s.flush(context.Background())
	}
}

func (s *logSender) putLocked(name logName, line string) {
	text := s.pending[name]
	if text == nil {
		text = &bytes.Buffer{}
		s.pending[name], s.order = text, append(s.order, name)
	}
	text.WriteString(line)
	text.WriteByte('\n')
	s.bytes += len(line) + 1
}

// flush sends what has been printed up to now. What the leader does not take is
// kept, and sent again with the next flush.
func (s *logSender) flush(ctx context.Context) {
	s.sending.Lock()
	defer s.sending.Unlock()
	for {
		m := s.next()
		if m == nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, logSendTime)
		err := s.post(within, m)
		cancel()
		s.mu.Lock()
		if s.away = err != nil; s.away {
			if s.said.Due(s.now()) {
				s.log.Warn("the log of functions is not taken, trying again", zap.Error(err))
			}
			s.mu.Unlock()
			return
		}
		s.unsent, s.said = nil, actorkit.Sparse{}
		s.mu.Unlock()
	}
}

// next returns what is to be sent next: what was sent and not taken, before what is
// new; nil: nothing.
func (s *logSender) next() *messages.LinesPrinted {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent == nil && s.bytes > 0 {
		s.seq++
		s.unsent = &messages.LinesPrinted{Node: s.node, Boot: s.boot, Seq: s.seq}
		for _, name := range s.order {
			s.unsent.Lines = append(s.unsent.Lines, &messages.FunctionLines{
				JobId: name.job, Function: int32(name.function), Text: s.pending[name].Bytes(),
			})
		}
		s.pending, s.order, s.bytes = map[logName]*bytes.Buffer{}, nil, 0
	}
	return s.unsent
}

// settle sends what has been printed up to now, unless nobody took the last.
func (s *logSender) settle(ctx context.Context) {
	s.mu.Lock()
	idle := s.away || s.unsent == nil && s.bytes == 0
	s.mu.Unlock()
	if !idle {
		s.flush(context.WithoutCancel(ctx))
	}
}

// run sends what is printed as it comes, until ctx ends.
func (s *logSender) run(ctx context.Context) {
	for pause(ctx, logSendGap) == nil {
		s.flush(ctx)
	}
}
