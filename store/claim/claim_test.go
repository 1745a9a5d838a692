package claim_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

// childEnv tells the test binary that it is a server in a process of its own,
// and the folder of its store.
const childEnv = "TROUPE_CLAIM_TEST_CHILD"

var me = claim.Owner{Node: "here", Boot: "boot", PID: os.Getpid(), Address: "127.0.0.1:9090"}

// TestMain is also the entry of the processes that the tests start.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		serve(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve obeys a word a line: "lead", "beat" or "release". It answers each with
// a line: "ok" and the term, or the kind of the error and it.
func serve(dir string) {
	s, err := store.NewFile(dir)
	if err != nil {
		panic(err)
	}
	r, ctx := claim.New(s), context.Background()
	var own *claim.Claim
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var err error
		switch in.Text() {
		case "lead":
			pid := os.Getpid()
			var got *claim.Claim
			got, _, err = r.Lead(ctx, claim.Owner{Node: "node-" + strconv.Itoa(pid), Boot: "boot", PID: pid, Address: "10.0.0.1:9090"}, claim.Sighting{})
			if err == nil {
				own = got
			}
		case "beat":
			err = own.Beat(ctx)
		case "release":
			err = own.Release()
		}
		if err != nil {
			fmt.Println(fault.KindOf(err).String() + ": " + err.Error())
			continue
		}
		fmt.Println("ok", own.Number())
	}
}

// process is a server in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts one. It is killed at the end of the test if it still runs.
func start(t *testing.T, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, in: in, out: bufio.NewReader(pipe)}
	t.Cleanup(p.kill)
	return p
}

func (p *process) ask(word string) string {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, word)
	require.NoError(p.t, err)
	answer, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSpace(answer)
}

// kill is kill -9. The process is gone when it returns.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func openFile(t *testing.T, dir string) *store.File {
	t.Helper()
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func keys(t *testing.T, s store.Store) []string {
	t.Helper()
	keys := []string{}
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// A second server on the store is told who has it; kill -9 frees it at once.
func TestAStoreHasOneServer(t *testing.T) {
	dir := t.TempDir()
	first, second := start(t, dir), start(t, dir)
	require.Equal(t, "ok 1", first.ask("lead"))
	want := fmt.Sprintf("conflict: the store file://%s is open in another server: node-%d (pid %[2]d) at 10.0.0.1:9090, term 1: use that one, stop it, or give another store",
		dir, first.cmd.Process.Pid)
	require.Equal(t, want, second.ask("lead"))
	require.Equal(t, want, second.ask("lead"))
	require.Equal(t, "ok 1", first.ask("beat"))

	first.kill()
	require.Equal(t, "ok 2", second.ask("lead"), "free at once")
	r := claim.New(openFile(t, dir))
	seen, err := r.Leader(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, seen.Number)
	require.Equal(t, second.cmd.Process.Pid, seen.Owner.PID)
	require.Equal(t, "ok 2", second.ask("release"))
	own, _, err := r.Lead(t.Context(), me, claim.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 3, own.Number())
	require.Contains(t, second.ask("beat"), "conflict: the store file://"+dir+": the claim of term 2 was released")
	require.NoError(t, own.Release())
}

// Of servers that start together one leads, every time one of them dies.
func TestFourProcessesRaceForTheLead(t *testing.T) {
	dir := t.TempDir()
	servers := map[int]*process{}
	for i := range 4 {
		servers[i] = start(t, dir)
	}
	for term := 1; term <= 4; term++ {
		var wg sync.WaitGroup
		answers := make([]string, 4)
		for i, p := range servers {
			wg.Go(func() { answers[i] = p.ask("lead") })
		}
		wg.Wait()
		leader := -1
		for i := range servers {
			if answers[i] == fmt.Sprintf("ok %d", term) {
				require.Equal(t, -1, leader, "term %d has two leaders", term)
				leader = i
				continue
			}
			require.Contains(t, answers[i], fmt.Sprintf("term %d: use that one", term))
		}
		require.NotEqual(t, -1, leader, "term %d has none", term)
		servers[leader].kill()
		delete(servers, leader)
	}
}

// A server that is frozen is followed only by who has watched it, and is told
// when it wakes.
func TestAFrozenServerIsFollowedWhenStale(t *testing.T) {
	dir := t.TempDir()
	server := start(t, dir)
	require.Equal(t, "ok 1", server.ask("lead"))
	r := claim.New(openFile(t, dir))
	before, err := r.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ok 1", server.ask("beat"))
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGSTOP))
	_, now, err := r.Lead(t.Context(), me, before)
	requireKind(t, fault.Conflict, err)
	require.NotEqual(t, before, now, "it has given a beat")
	own, seen, err := r.Lead(t.Context(), me, now)
	require.NoError(t, err)
	require.Equal(t, claim.Sighting{Number: 2, Owner: me}, seen)
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGCONT))
	require.Contains(t, server.ask("beat"), fmt.Sprintf("was taken over by pid %d (node here) at 127.0.0.1:9090 as term 2", me.PID))
	require.NoError(t, own.Beat(t.Context()))
	require.NoError(t, own.Release())
}

// Terms leave their claims, and nothing else.
func TestTermsAreTidy(t *testing.T) {
	for name, s := range map[string]store.Store{"file": openFile(t, t.TempDir()), "mem": store.NewMem()} {
		t.Run(name, func(t *testing.T) {
			r := claim.New(s)
			for range 3 {
				own, _, err := r.Lead(t.Context(), me, claim.Sighting{})
				require.NoError(t, err)
				require.NoError(t, own.Beat(t.Context()))
				require.NoError(t, own.Release())
				require.NoError(t, own.Release(), "a repeat does nothing")
			}
			got := strings.Join(keys(t, s), " ")
			require.Regexp(t, `^leader/1/claim leader/2/claim leader/3/beat leader/3/claim( leader/3/lock-\w+)?$`, got)
			require.NoError(t, s.Close())
		})
	}
}

// Things under other prefixes, and other names, are not in each other's way.
func TestSubjectsAreApart(t *testing.T) {
	s := store.NewMem()
	defer s.Close()
	r := claim.New(s)
	for _, prefix := range []string{"a/", "a/1/", "b/"} {
		what := claim.Subject{Prefix: prefix, Name: "thing " + prefix, Number: "life"}
		seen, err := r.Look(t.Context(), what)
		require.NoError(t, err)
		require.Zero(t, seen)
		own, _, err := r.Take(t.Context(), what, me, claim.Sighting{})
		require.NoError(t, err)
		require.EqualValues(t, 1, own.Number())
		_, _, err = r.Take(t.Context(), what, me, claim.Sighting{})
		requireKind(t, fault.Conflict, err)
		require.ErrorContains(t, err, "thing "+prefix+" is owned, as life 1, by here (pid ")
		require.ErrorContains(t, err, ") at 127.0.0.1:9090")
	}
}

func TestNumbersAreAsWritten(t *testing.T) {
	for name, want := range map[string]bool{"0": true, "12": true, "012": false, "-1": false, "+1": false, "1e3": false, "": false, "18446744073709551616": false} {
		_, ok := claim.ParseNumber(name)
		require.Equal(t, want, ok, name)
	}
}

// Who lets go of something says so to those who cannot see its lock; one that is over
// has nothing to say, and a beat that comes late does not take it back.
func TestWhoeverLooksSeesARelease(t *testing.T) {
	s := store.NewMem()
	defer s.Close()
	here, there := claim.New(s), claim.New(s)
	first, _, err := here.Take(t.Context(), thing, me, claim.Sighting{})
	require.NoError(t, err)
	_, _, err = there.Take(t.Context(), thing, me, claim.Sighting{})
	requireKind(t, fault.Conflict, err)
	require.NoError(t, first.Release())
	requireKind(t, fault.Conflict, first.Beat(t.Context()))
	second, _, err := there.Take(t.Context(), thing, me, claim.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 2, second.Number())
	third, _, err := here.Take(t.Context(), thing, me, claim.Sighting{Number: 2, Owner: me})
	require.NoError(t, err, "watched long enough")
	require.NoError(t, second.Release())
	seen, err := here.Look(t.Context(), thing)
	require.NoError(t, err)
	require.EqualValues(t, 3, seen.Number)
	require.NoError(t, third.Beat(t.Context()))
	require.NoError(t, third.Release())
}
