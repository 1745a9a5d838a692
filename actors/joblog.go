package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	logSegment  = 256 << 10 // bytes of an object of a log
	logLimit    = 4 << 20   // bytes kept of the first that one function of a job prints in one process
	logTail     = 256 << 10 // and of the last: what an error says comes last
	maxSegments = 10_000    // that other processes may have stored
)

// jobLogs keeps what functions print in the store, in segments
// jobs/<id>/logs/<function>-<k>.txt: of each function of a job the first, up to
// a limit, and the last. Segments that an earlier process stored stay: k goes on
// behind them.
type jobLogs struct {
	store store.Store
	also  func(python.Line) // gets each line too; nil: nobody

	mu   sync.Mutex // guards logs
	logs map[logName]*jobLog
}

// logName names what one function of a job prints.
type logName struct {
	job      string
	function int // -1: while the program is imported
}

func (n logName) text() string {
	if n.function < 0 {
		return "program"
	}
	return fmt.Sprint(n.function)
}

// key is that of a segment in the store.
func (n logName) key(segment int) string {
	return fmt.Sprintf("%s%s-%d.txt", logFolder(n.job), n.text(), segment)
}

func logFolder(job string) string { return "jobs/" + job + "/logs/" }

// jobLog is such a log: what is not stored yet of it.
type jobLog struct {
	text     bytes.Buffer
	segments int
	bytes    int // of the first

	full    bool   // the first are all there: what comes is among the last
	last    []byte // those, and up to as many again
	dropped int    // lines between the first and the last
}

// take adds a line.
func (l *jobLog) take(line string) {
	if !l.full && l.bytes+len(line) < logLimit {
		l.bytes += len(line) + 1
		l.text.WriteString(line)
		l.text.WriteByte('\n')
		return
	}
	l.full = true
	l.last = append(append(l.last, line...), '\n')
	if len(l.last) > 2*logTail {
		l.trim()
	}
}

// trim shortens the last lines to logTail.
func (l *jobLog) trim() {
	over := len(l.last) - logTail
	if over <= 0 {
		return
	}
	cut := over + bytes.IndexByte(l.last[over-1:], '\n')
	l.dropped += bytes.Count(l.last[:cut], []byte{'\n'})
	l.last = append(l.last[:0], l.last[cut:]...)
}

// finish moves the last lines to the text.
func (l *jobLog) finish() {
	l.trim()
	if l.dropped > 0 {
		fmt.Fprintf(&l.text, "(%d lines are left out: of a function's log the first %d MiB and the last %d KiB are kept)\n", l.dropped, logLimit>>20, logTail>>10)
	}
	l.text.Write(l.last)
	l.last, l.dropped = nil, 0
}

func newJobLogs(s store.Store, also func(python.Line)) *jobLogs {
	return &jobLogs{store: s, also: also, logs: map[logName]*jobLog{}}
}

// add takes a line. It may store a segment, which holds its caller up: a
// program cannot print faster than the store takes it.
func (l *jobLogs) add(line python.Line) {
	if l.also != nil {
		l.also(line)
	}
	if line.JobID == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := logName{line.JobID, line.Index}
	log := l.logs[name]
	if log == nil {
		log = &jobLog{}
		l.logs[name] = log
	}
	log.take(line.Text)
	if log.text.Len() >= logSegment {
		_ = l.putLocked(name, log) // kept, and tried again with the next line
	}
}

// flush stores what is left of a job's logs; of all jobs for "". A job that has
// ended is flushed once, and once more with the node.
func (l *jobLogs) flush(job string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	names := slices.SortedFunc(maps.Keys(l.logs), func(a, b logName) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, name := range names {
		if job == "" || name.job == job {
			l.logs[name].finish()
			errs = append(errs, l.putLocked(name, l.logs[name]))
		}
	}
	return errors.Join(errs...)
}

// storeAll stores what has been printed so far, so that a process that dies loses
// little of it.
func (l *jobLogs) storeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, log := range l.logs {
		_ = l.putLocked(name, log) // kept, and tried again
	}
}

// forget stores what is left of the logs of a job that has ended, and drops
// them.
func (l *jobLogs) forget(job string) error {
	if err := l.flush(job); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.logs, func(name logName, _ *jobLog) bool { return name.job == job })
	return nil
}

// folder is where the logs of a job are, "" when it has none.
func (l *jobLogs) folder(job string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.logs {
		if name.job == job {
			return l.store.URL(strings.TrimSuffix(logFolder(job), "/"))
		}
	}
	return ""
}

// putLocked stores a segment. The caller holds mu.
func (l *jobLogs) putLocked(name logName, log *jobLog) error {
	if log.text.Len() == 0 {
		return nil
	}
	for tries := 0; ; tries++ {
		err := l.store.PutIfAbsent(context.Background(), name.key(log.segments), func(w io.Writer) error {
			_, err := w.Write(log.text.Bytes())
			return err
		})
		if fault.KindOf(err) == fault.Conflict && tries < maxSegments { // an earlier process's
			log.segments++
			continue
		}
		if err == nil {
			log.segments++
			log.text.Reset()
		}
		return err
	}
}
