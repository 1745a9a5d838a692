package actors

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// logPoll is how often a log that is followed is looked at.
const logPoll = 300 * time.Millisecond

// allFunctions stands for what every function of a job prints.
const allFunctions = -1

// Log writes what functions of a job have printed, each line behind
// "<function>| ", or "program| " for what the program printed as it was
// imported; function -1 is all of them. With follow it goes on with what they
// print until the job has ended, or ctx has. NotFound.
func (c *Company) Log(ctx context.Context, id string, function int, follow bool, w io.Writer) error {
	v, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	r := &logReader{logs: c.logs, job: id, only: function, at: map[string]*logPosition{}}
	for {
		over := v.GetResult() != nil || !follow
		if err := r.copy(ctx, w); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-time.After(logPoll):
		}
		if v, err = c.Job(ctx, id); err != nil {
			return err
		}
	}
}

// logReader reads the logs of a job as they grow.
type logReader struct {
	logs *jobLogs
	job  string
	only int
	at   map[string]*logPosition // by function
}

// logPosition is up to where a log was read.
type logPosition struct{ segment, offset int }

// copy writes what has come since the last call, whole lines only.
func (r *logReader) copy(ctx context.Context, w io.Writer) error {
	names, err := r.logs.functions(ctx, r.job)
	if err != nil {
		return err
	}
	for _, name := range names {
		if r.only != allFunctions && name != strconv.Itoa(r.only) {
			continue
		}
		at := r.at[name]
		if at == nil {
			at = &logPosition{}
			r.at[name] = at
		}
		for {
			text, closed, err := r.logs.segment(ctx, r.job, name, at.segment)
			if err != nil {
				return err
			}
			fresh := text[min(at.offset, len(text)):]
			fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
			for line := range bytes.Lines(fresh) {
				if _, err := fmt.Fprintf(w, "%s| %s", name, line); err != nil {
					return err
				}
			}
			at.offset += len(fresh)
			if !closed {
				break
			}
			*at = logPosition{segment: at.segment + 1}
		}
	}
	return nil
}

// functions names the functions of a job that have printed something, the
// program first.
func (l *jobLogs) functions(ctx context.Context, job string) ([]string, error) {
	seen := map[string]bool{}
	for o, err := range l.store.List(ctx, logFolder(job)) {
		if err != nil {
			return nil, fault.New("actors.log", fault.KindOf(err), "log of job %s: %w", job, err)
		}
		name, _, ok := strings.Cut(strings.TrimSuffix(path.Base(o.Key), ".txt"), "-")
		if ok {
			seen[name] = true
		}
	}
	l.mu.Lock()
	for name := range l.logs {
		if name.job == job {
			seen[name.text()] = true
		}
	}
	l.mu.Unlock()
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return functionOf(a) - functionOf(b) })
	return names, nil
}

func functionOf(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return -1
	}
	return n
}

// segment returns what a segment of a log holds so far, and whether nothing
// more comes to it.
func (l *jobLogs) segment(ctx context.Context, job, function string, number int) (text []byte, closed bool, err error) {
	name := logName{job, functionOf(function)}
	text, err = store.Read(ctx, l.store, name.key(number), -1)
	if fault.KindOf(err) != fault.NotFound {
		return text, true, err
	}
	l.mu.Lock() // what is not stored yet becomes it
	defer l.mu.Unlock()
	if log := l.logs[name]; log != nil {
		text = bytes.Clone(log.text.Bytes())
	}
	return text, false, nil
}
