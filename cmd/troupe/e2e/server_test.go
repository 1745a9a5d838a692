package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// server is a process of troupe up.
type server struct {
	home
	url string
	cmd *exec.Cmd
	log *bytes.Buffer // what it says behind its first line
	out sync.WaitGroup
}

// up starts a server, and returns once it takes jobs.
func (h home) up(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{home: h, cmd: h.command(t, append([]string{"up"}, flags...)...), log: &bytes.Buffer{}}
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewReader(stderr)
	for said := ""; s.url == ""; {
		line, err := lines.ReadString('\n')
		said += line
		require.NoError(t, err, said)
		if found := regexp.MustCompile(`^troupe .*: (https?://[^ ]+), `).FindStringSubmatch(line); found != nil {
			s.url = found[1]
		}
	}
	s.out.Go(func() { _, _ = s.log.ReadFrom(lines) })
	return s
}

// again starts a server where one was.
func (s *server) again(t *testing.T) *server {
	t.Helper()
	return s.home.up(t, "--listen", strings.TrimPrefix(s.url, "http://"))
}

// end ends a server with a signal, and returns its exit code.
func (s *server) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(signal))
	s.out.Wait()
	return exitCode(t, s.cmd.Wait())
}

// client is a command line for the server, not started yet.
func (s *server) client(t *testing.T, args ...string) *exec.Cmd {
	cmd := s.command(t, args...)
	cmd.Env = append(cmd.Env, "TROUPE_SERVER="+s.url)
	if strings.HasPrefix(s.url, "https:") {
		token, err := os.ReadFile(filepath.Join(s.dir, ".config", "troupe", "tls", "admin.token"))
		require.NoError(t, err)
		cmd.Env = append(cmd.Env, "TROUPE_TOKEN="+strings.TrimSpace(string(token)))
	}
	return cmd
}

// ask runs a command line for the server to its end.
func (s *server) ask(t *testing.T, args ...string) ended {
	t.Helper()
	var out, err bytes.Buffer
	cmd := s.client(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	code := exitCode(t, cmd.Run())
	return ended{code, out.String(), err.String()}
}

// submit submits a job, and returns its id.
func (s *server) submit(t *testing.T, flags ...string) string {
	t.Helper()
	e := s.ask(t, append([]string{"train", "-f", "mlp", "-d", "digits"}, flags...)...)
	require.Zero(t, e.code, e.err)
	return strings.TrimSpace(e.out)
}

// follower is a process that follows a job.
type follower struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	err  *bufio.Reader
	said strings.Builder
}

func (s *server) follow(t *testing.T, args ...string) *follower {
	t.Helper()
	f := &follower{cmd: s.client(t, args...)}
	stderr, err := f.cmd.StderrPipe()
	require.NoError(t, err)
	f.cmd.Stdout, f.err = &f.out, bufio.NewReader(stderr)
	require.NoError(t, f.cmd.Start())
	t.Cleanup(func() { _ = f.cmd.Process.Kill() })
	return f
}

// until reads on to a line that begins like that.
func (f *follower) until(t *testing.T, start string) string {
	t.Helper()
	for {
		line, err := f.err.ReadString('\n')
		f.said.WriteString(line)
		require.NoError(t, err, f.said.String())
		if strings.HasPrefix(line, start) {
			return line
		}
	}
}

// wait reads on to the end, and returns the exit code.
func (f *follower) wait(t *testing.T) int {
	t.Helper()
	var rest bytes.Buffer
	_, err := rest.ReadFrom(f.err)
	require.NoError(t, err)
	f.said.Write(rest.Bytes())
	return exitCode(t, f.cmd.Wait())
}

// details is what task show -o json prints, as far as tests look at it.
type details struct {
	Phase       string `json:"phase"`
	Reason      string `json:"reason"`
	Origin      string `json:"origin"`
	Node        string `json:"node"`
	Incarnation int    `json:"incarnation"`
	Epoch       int    `json:"epoch"`
	Epochs      []struct {
		Epoch   int `json:"epoch"`
		Samples int `json:"samples"`
	} `json:"epochs"`
	Result struct {
		Model string `json:"model"`
	} `json:"result"`
}

func (s *server) show(t *testing.T, id string) (d details) {
	t.Helper()
	e := s.ask(t, "task", "show", "--id", id, "-o", "json")
	require.Zero(t, e.code, e.err)
	require.NoError(t, json.Unmarshal([]byte(e.out), &d))
	return d
}

func TestE2EUpAndTrain(t *testing.T) {
	s := newHome(t).up(t, "--listen", "127.0.0.1:0")
	e := s.ask(t, "train", "-f", "mlp", "-d", "digits", "-e", "20", "--follow")
	require.Zero(t, e.code, e.err)
	require.Contains(t, e.out, "SUCCEEDED after 20 epochs")
	require.Equal(t, 20, strings.Count(e.err, "  samples 1437  "), e.err)
	id := regexp.MustCompile(`job (\w+) SUCCEEDED`).FindStringSubmatch(e.out)[1]
	require.Contains(t, s.ask(t, "model", "list").out, id)
	require.Contains(t, s.ask(t, "history", "list").out, id)
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
	require.Contains(t, s.home.troupe(t, "history", "list").out, id, "without the server the store tells it")
	require.Empty(t, files(t, s.tmp))
}

// The server is killed in mid-job. The next one goes on with it by itself, and
// who follows it sees every event once, and the end.
func TestE2EServerIsKilled(t *testing.T) {
	s := newHome(t).up(t, "--listen", "127.0.0.1:0")
	f := s.follow(t, "train", "-f", "mlp", "-d", "digits", "-e", "400", "--static", "-p", "2", "--checkpoint-every", "1s", "--follow")
	id := strings.Fields(f.until(t, "job "))[1]
	id = strings.TrimSuffix(id, ":")
	logs := s.follow(t, "logs", "--id", id, "-f")
	f.until(t, "epoch 30/400")
	s.end(t, syscall.SIGKILL)
	f.until(t, "troupe: "+s.url+" does not answer")
	next := s.again(t)
	f.until(t, "job "+id+" ")
	require.Zero(t, f.wait(t), f.said.String())
	require.Contains(t, f.out.String(), "SUCCEEDED after 400 epochs")
	require.Contains(t, f.said.String(), "\nepoch 400/400  ")
	require.Zero(t, logs.wait(t), "who follows the log sees the end, too: %s", &logs.said)

	d := next.show(t, id)
	require.Equal(t, "SUCCEEDED", d.Phase)
	require.GreaterOrEqual(t, d.Incarnation, 2)
	require.Len(t, d.Epochs, 400)
	for i, epoch := range d.Epochs {
		require.Equal(t, i+1, epoch.Epoch)
		require.Equal(t, 1437, epoch.Samples)
	}
	require.Equal(t, 1, strings.Count(next.ask(t, "history", "list").out, id))
	require.Zero(t, next.end(t, syscall.SIGTERM))
}

// A stop that was accepted is obeyed by whoever serves next.
func TestE2EAnAcceptedStopIsObeyed(t *testing.T) {
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "1")
	runs, waits := s.submit(t, "-e", "100000", "-p", "1"), s.submit(t, "-e", "100000", "-p", "1")
	for _, id := range []string{waits, runs} {
		require.Zero(t, s.ask(t, "task", "stop", "--id", id).code)
	}
	s.end(t, syscall.SIGKILL)
	next := s.again(t)
	for _, id := range []string{waits, runs} {
		e := next.ask(t, "task", "show", "--id", id, "--follow")
		require.Equal(t, 8, e.code, e.err)
		require.Contains(t, next.show(t, id).Reason, "stopped by troupe task stop")
	}
	require.Zero(t, next.end(t, syscall.SIGTERM))
}

func TestE2EAStoreHasOneServer(t *testing.T) {
	s := newHome(t).up(t, "--listen", "127.0.0.1:0")
	e := s.home.troupe(t, "up", "--listen", "127.0.0.1:0")
	require.Equal(t, 4, e.code, e.err)
	require.Regexp(t, `is open in another server: [a-z0-9-]+-[0-9a-f]{6} \(pid `, e.err)
	require.Contains(t, e.err, " at "+strings.TrimPrefix(s.url, "http://"), "where it can be reached, port and all")
	require.Zero(t, s.end(t, syscall.SIGINT))
}

// A job of troupe run is its own process's, whatever servers come and go.
func TestE2ERunBesideAServer(t *testing.T) {
	h := newHome(t)
	r := start(t, h)
	s := h.up(t, "--listen", "127.0.0.1:0")
	require.Equal(t, "", s.ask(t, "task", "list", "--short").out)
	id := strings.Fields(s.ask(t, "history", "list").out)[10]
	require.Equal(t, "run", s.show(t, id).Origin)
	require.Equal(t, 4, s.ask(t, "history", "delete", "--id", id).code, "it runs")
	require.Equal(t, 4, s.ask(t, "task", "stop", "--id", id).code)
	require.Zero(t, s.end(t, syscall.SIGTERM))
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 8, r.wait(t).code, "it has been running all the while")
}

// Twenty jobs at once all end, each once.
func TestE2ETwentyJobsAtOnce(t *testing.T) {
	s := newHome(t).up(t, "--listen", "127.0.0.1:0")
	const jobs = 20
	results := make([]ended, jobs)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			results[i] = s.ask(t, "train", "-f", "mlp", "-d", "digits", "-e", "2", "-p", "2", "--follow", "-o", "json")
		})
	}
	all.Wait()
	ids := map[string]bool{}
	for _, e := range results {
		require.Zero(t, e.code, e.err)
		var said struct {
			ID string `json:"job_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(e.out), &said), e.out)
		ids[said.ID] = true
		require.Equal(t, 2, strings.Count(e.err, "  samples 1437  "), e.err)
	}
	require.Len(t, ids, jobs)
	var list []struct {
		Job details `json:"job"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.ask(t, "history", "list", "-o", "json").out), &list))
	require.Len(t, list, jobs)
	for _, one := range list {
		require.Equal(t, "SUCCEEDED", one.Job.Phase)
		require.Equal(t, 1, one.Job.Incarnation)
	}
	require.Equal(t, "", s.ask(t, "task", "list", "--short").out)
	require.Zero(t, s.end(t, syscall.SIGTERM))
}
