package isolate

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
)

const (
	tellTime  = time.Second // that a child has to say where it is, on a busy machine
	mostStack = 256 << 10   // bytes that it says
)

var _ functions.Tracer = (*Runtime)(nil)

// Stacks implements functions.Tracer.
func (r *Runtime) Stacks(jobID string) map[int]string { return r.at.Stacks(jobID) }

// whereabouts asks a child where it is.
func (w *worker) whereabouts(jobID string) string {
	told := make(chan string, 1)
	w.mu.Lock()
	w.asked = append(w.asked, told)
	w.mu.Unlock()
	if err := w.write(toChild{Stacks: jobID}); err != nil {
		return fmt.Sprintf("process %d has ended", w.proc.PID)
	}
	select {
	case text := <-told:
		return text
	case <-w.proc.Gone:
		return fmt.Sprintf("process %d has ended", w.proc.PID)
	case <-time.After(tellTime):
		return fmt.Sprintf("process %d has not said within %v where it is", w.proc.PID, tellTime)
	}
}

// hearStacks gives what a child has said to whoever has asked.
func (w *worker) hearStacks(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, told := range w.asked {
		told <- text // there is room, and nobody else sends
	}
	w.asked = nil
}

// write sends the child something; several may at once.
func (w *worker) write(m toChild) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return child.WriteFrame(w.control, m)
}

// stacks is what the child says: where the function is that it runs.
func (s *server) stacks(jobID string) string {
	var text strings.Builder
	if t, ok := s.runtime.(functions.Tracer); ok {
		for _, stack := range t.Stacks(jobID) { // there is one: it runs one invocation at a time
			text.WriteString(stack)
		}
	}
	if text.Len() == 0 {
		return "  it is about to begin, or to end"
	}
	return text.String()[:min(text.Len(), mostStack)]
}
