package client

import (
	"bufio"
	"context"
	"hash/fnv"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Log implements api.Jobs. A log that is followed goes on where it was when the
// connection or the server is lost, as Events does.
func (c *Client) Log(ctx context.Context, id string, function int, follow bool, w io.Writer) error {
	k := get("tasks", id, "logs")
	k.query = url.Values{}
	if function >= 0 {
		k.query.Set("function", strconv.Itoa(function))
	}
	if follow {
		k.query.Set("follow", "1")
		k.query.Set("heartbeat", "1")
		l := &followedLog{client: c, call: k, w: w, lines: map[string][]uint64{}}
		return c.follow(ctx, l.once)
	}
	response, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(w, response.Body); err != nil {
		return c.broken(k, err)
	}
	return nil
}

// followedLog writes each line of a log once, over several connections, each of
// which begins with the first line. The order among functions may be another each
// time; the lines of one keep theirs. What a server that was killed had not
// stored is gone, and other lines come in its place: these are written, too.
type followedLog struct {
	client *Client
	call   call
	w      io.Writer
	lines  map[string][]uint64 // by function: a hash of each line that was written
	at     map[string]int      // by function: how many lines this connection gave
}

// once is a connection.
func (l *followedLog) once(ctx context.Context, heard func()) (again, progress bool, err error) {
	response, err := l.client.try(ctx, l.call, nil)
	if err != nil {
		return fault.KindOf(err) == fault.Unavailable, false, err
	}
	defer response.Body.Close()
	l.at = map[string]int{}
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return false, true, nil // the job has ended: what is cut off is another error
		}
		if err != nil {
			return true, progress, l.client.broken(l.call, err)
		}
		heard()
		fresh, err := l.add(line)
		if err != nil {
			return false, true, err
		}
		progress = progress || fresh
	}
}

// add takes the next line in, and reports whether it is a new one. An empty line
// is a heartbeat.
func (l *followedLog) add(line string) (fresh bool, err error) {
	if line == "\n" {
		return false, nil
	}
	function, _, _ := strings.Cut(line, "|")
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, line)
	at, lines := l.at[function], l.lines[function]
	l.at[function] = at + 1
	if at < len(lines) && lines[at] == sum.Sum64() {
		return false, nil
	}
	l.lines[function] = append(lines[:at], sum.Sum64())
	_, err = io.WriteString(l.w, line)
	return true, err
}
