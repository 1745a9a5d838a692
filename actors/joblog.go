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
	logLimit    = 4 << 20   // bytes kept of what one function of a job prints in one process
	maxSegments = 10_000    // that other processes may have stored
)

// jobLogs keeps what functions print in the store, in segments
// jobs/<id>/logs/<function>-<k>.txt, up to a limit for each function of a job.
// Those that an earlier process stored stay: k goes on behind them.
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

// jobLog is such a log: what is not stored yet of it.
type jobLog struct {
	text     bytes.Buffer
	segments int
	bytes    int
	full     bool
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
	switch {
	case log.full:
		return
	case log.bytes+len(line.Text) >= logLimit:
		log.full = true
		fmt.Fprintf(&log.text, "(the rest is left out: a function's log is kept up to %d MiB)\n", logLimit>>20)
	default:
		log.bytes += len(line.Text) + 1
		log.text.WriteString(line.Text)
		log.text.WriteByte('\n')
	}
	if log.text.Len() >= logSegment {
		_ = l.putLocked(name, log) // kept, and tried again with the next line
	}
}

// flush stores what is left of a job's logs; of all jobs for "".
func (l *jobLogs) flush(job string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	names := slices.SortedFunc(maps.Keys(l.logs), func(a, b logName) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, name := range names {
		if job == "" || name.job == job {
			errs = append(errs, l.putLocked(name, l.logs[name]))
		}
	}
	return errors.Join(errs...)
}

// putLocked stores a segment. The caller holds mu.
func (l *jobLogs) putLocked(name logName, log *jobLog) error {
	if log.text.Len() == 0 {
		return nil
	}
	for tries := 0; ; tries++ {
		key := fmt.Sprintf("jobs/%s/logs/%s-%d.txt", name.job, name.text(), log.segments)
		err := l.store.PutIfAbsent(context.Background(), key, func(w io.Writer) error {
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
