package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endpoint is a process of troupe serve.
type endpoint struct {
	home
	args []string
	url  string
	cmd  *exec.Cmd
	log  bytes.Buffer // what it says behind its first line; whole once it has ended
	out  sync.WaitGroup
}

// serve starts an endpoint, and returns once it takes calls.
func (h home) serve(t *testing.T, port string, args ...string) *endpoint {
	t.Helper()
	e := &endpoint{home: h, args: args, cmd: h.command(t, append([]string{"serve", "--port", port}, args...)...)}
	stderr, err := e.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, e.cmd.Start())
	t.Cleanup(func() { _ = e.cmd.Process.Kill() })
	lines := bufio.NewReader(stderr)
	said, err := lines.ReadString('\n')
	require.NoError(t, err, said)
	found := regexp.MustCompile(`^troupe .* at (http://[0-9.:]+), `).FindStringSubmatch(said)
	require.NotNil(t, found, said)
	e.url = found[1]
	e.out.Go(func() { _, _ = e.log.ReadFrom(lines) })
	return e
}

// end ends an endpoint with a signal, and returns its exit code.
func (e *endpoint) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	require.NoError(t, e.cmd.Process.Signal(signal))
	e.out.Wait()
	return exitCode(t, e.cmd.Wait())
}

// again kills an endpoint, and starts it where it was.
func (e *endpoint) again(t *testing.T) *endpoint {
	t.Helper()
	e.end(t, syscall.SIGKILL)
	return e.home.serve(t, e.url[strings.LastIndex(e.url, ":")+1:], e.args...)
}

// deploy makes endpoints a function.
func (h home) deploy(t *testing.T, name string, endpoints ...*endpoint) {
	t.Helper()
	args := []string{"function", "create", "--name", name}
	for _, e := range endpoints {
		args = append(args, "--url", e.url)
	}
	require.Zero(t, h.troupe(t, args...).code)
}

// A program trained behind HTTP is the same program: init, training, optimizer
// state and validation, bit for bit. Its endpoints leave nothing behind.
func TestE2EServedProgramGivesTheSameModel(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	one, two := h.serve(t, "0", "--code", program(t, "probe.py")), h.serve(t, "0", "--code", program(t, "probe.py"))
	scratch := append(scratchOf(t, one.cmd.Process.Pid), scratchOf(t, two.cmd.Process.Pid)...)
	require.NotEmpty(t, scratch)
	h.deploy(t, "far", one, two)
	asked := []string{"-d", "digits", "-e", "2", "-b", "32", "-K", "8", "-p", "3", "--slots", "2", "--threads", "1", "--static", "--lr", "0.05"}
	near := h.run(t, append([]string{program(t, "probe.py")}, asked...)...)
	far := h.run(t, append([]string{"far"}, asked...)...)
	require.True(t, bytes.Equal(near.model(t), far.model(t)), "the model differs")
	require.Equal(t, near.ValidationLoss, far.ValidationLoss)
	require.Equal(t, near.Accuracy, far.Accuracy)
	for i := range near.Epochs {
		require.Equal(t, near.Epochs[i], far.Epochs[i])
	}
	require.Zero(t, far.Retries)

	fails, e := h.fail(t, "far", "-d", "digits", "-e", "1", "-b", "32", "-p", "2", "--static", "--arg", "do=train-raises")
	require.Contains(t, fails.Error, `RuntimeError: the fifth step went wrong`, e.err)
	require.Contains(t, fails.Error, `File "probe.py", line `)
	e = h.troupe(t, "run", "far", "-d", "digits", "-e", "1", "-p", "2", "--env", "A=b", "--retries", "0")
	require.Equal(t, 7, e.code)
	require.Contains(t, e.err, "start the endpoint with --job-url")

	for _, e := range []*endpoint{one, two} {
		require.Zero(t, e.end(t, syscall.SIGTERM), e.log.String())
	}
	for _, folder := range scratch {
		require.NoDirExists(t, folder)
	}
	e = h.troupe(t, "run", "far", "-d", "digits", "-e", "1", "-p", "2", "--retries", "0", "--function-timeout", "2s")
	require.Equal(t, 7, e.code)
	require.Contains(t, e.err, "warning: waiting up to 1s for an endpoint to be there: ")
	require.Contains(t, e.err, "connection refused")
}

// Of eight endpoints one is killed every ten rounds, and started again: no sample
// is lost or trained twice, and the job ends with the model of one that nothing
// befell.
func TestE2EEndpointsThatDie(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	endpoints := make([]*endpoint, 8)
	for i := range endpoints {
		endpoints[i] = h.serve(t, "0", "--function", "mlp", "--slots", "2")
	}
	h.deploy(t, "far", endpoints...)
	asked := []string{"-e", "6", "-b", "8", "-K", "2", "-p", "8", "--static", "--lr", "0.05"}
	calm := h.run(t, append([]string{"mlp", "-d", "digits"}, asked...)...)

	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "8")
	e := s.ask(t, append([]string{"train", "-f", "far", "-d", "digits"}, asked...)...)
	require.Zero(t, e.code, e.err)
	id := strings.TrimSpace(e.out)
	events, err := http.Get(s.url + "/events?job=" + id)
	require.NoError(t, err)
	defer events.Body.Close()
	killed, rounds := 0, 0
	for lines := bufio.NewScanner(events.Body); lines.Scan() && lines.Text() != "event: ended"; {
		if lines.Text() != "event: round_merged" {
			continue
		}
		if rounds++; rounds%10 == 0 {
			endpoints[killed%8] = endpoints[killed%8].again(t)
			killed++
		}
	}
	require.GreaterOrEqual(t, killed, 6)
	e = s.ask(t, "task", "show", "--id", id)
	require.Contains(t, e.out, "SUCCEEDED", e.err)
	e = s.ask(t, "history", "get", "--id", id, "-o", "json")
	samples := regexp.MustCompile(`"samples":\d+`).FindAllString(e.out, -1)
	require.GreaterOrEqual(t, len(samples), 6, e.out)
	for _, of := range samples {
		require.Equal(t, `"samples":1437`, of)
	}
	out := filepath.Join(h.dir, "far.safetensors")
	require.Zero(t, s.ask(t, "model", "export", "-n", id, "-o", out).code)
	far, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(calm.model(t), far), "the model differs")
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
	for _, e := range endpoints {
		require.Zero(t, e.end(t, syscall.SIGTERM), e.log.String())
	}
}

// Reported: a worker is frozen, not dead. Here that is an endpoint, in the middle
// of its work, which is done elsewhere meanwhile. What it says once it is
// continued nobody hears. A call that it gets while it is frozen is not known from
// one to an endpoint that has to start first: it has its time, and is made again.
func TestE2EFrozenEndpoint(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	mark := filepath.Join(h.dir, "mark")
	one, two := h.serve(t, "0", "--code", program(t, "probe.py"), "-vv"), h.serve(t, "0", "--code", program(t, "probe.py"), "-vv")
	h.deploy(t, "far", one, two)
	calm := h.run(t, probe(t, "")...)
	args := probe(t, "train-naps", "--slots", "2", "-v", "--function-timeout", "8s", "--arg", "step=5", "--arg", "function=1", "--arg", "mark="+mark, "--arg", "once="+mark+"-")
	args[0] = "far"
	r := h.begin(t, args...)
	var worker int
	await(t, patience, "a worker that says who it is", func() bool {
		b, _ := os.ReadFile(mark)
		line, whole := strings.CutSuffix(string(b), "\n")
		worker, _ = strconv.Atoi(line)
		return whole
	})
	frozen, other := one, two
	if parentOf(t, worker, two.cmd.Process.Pid) {
		frozen, other = two, one
	}
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
	e := r.wait(t)
	require.Zero(t, e.code, e.err)
	require.Contains(t, e.err, "function is late, running it a second time")
	result := parse(t, e.out)
	require.True(t, bytes.Equal(calm.model(t), result.model(t)), "the model differs")
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
	require.Zero(t, frozen.end(t, syscall.SIGTERM), frozen.log.String())
	require.Zero(t, other.end(t, syscall.SIGTERM), other.log.String())
	await(t, patience, "its worker to be gone", func() bool { // or dead, and whoever inherits it has not looked yet
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker))
		return err != nil || strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
	})
}

// parentOf reports whether a process descends from another one.
func parentOf(t *testing.T, child, parent int) bool {
	t.Helper()
	for child > 1 {
		if child == parent {
			return true
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		require.NoError(t, err)
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		child, err = strconv.Atoi(fields[1])
		require.NoError(t, err)
	}
	return false
}

// A signal lets an endpoint finish what it runs, and a second one, or the end of
// --grace, does not. The job waits for one that is started again.
func TestE2EServeEndsInOrder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for name, c := range map[string]struct {
		grace string
		code  int
		says  string
	}{
		"what runs is finished": {"5m", 0, "waiting up to 45s for an endpoint to be there"},
		"what runs is cut":      {"0s", 7, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(h.dir, "mark-"+c.grace)
			e := h.serve(t, "0", "--code", program(t, "probe.py"), "--slots", "1", "--grace", c.grace)
			h.deploy(t, "far-"+c.grace, e)
			// One round, of one function, whose first answer is all that is needed.
			args := probe(t, "train-naps", "-K", "-1", "-p", "1", "--retries", "0", "--validate-every", "-1", "--arg", "mark="+mark, "--arg", "once="+mark+"-")
			args[0] = "far-" + c.grace
			r := h.begin(t, args...)
			await(t, patience, "a function at work", func() bool { _, err := os.Stat(mark); return err == nil })
			began := time.Now()
			require.Zero(t, e.end(t, syscall.SIGTERM), e.log.String())
			t.Logf("ended after %v", time.Since(began))
			if c.code == 0 { // what was trained is merged, and the validation after it meets nobody, and waits
				h.serve(t, e.url[strings.LastIndex(e.url, ":")+1:], e.args...)
			}
			over := r.wait(t)
			require.Equal(t, c.code, over.code, over.err)
			require.Contains(t, over.err, c.says)
		})
	}
}
