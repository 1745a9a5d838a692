package job_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// childEnv tells the test binary that it is an owner in a process of its own,
// and the folder of its store.
const childEnv = "TROUPE_JOB_TEST_CHILD"

// diskEnv gives the child a disk of 256 KiB.
const diskEnv = "TROUPE_JOB_TEST_DISK"

// TestMain is also the entry of the processes that the tests start.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		serve(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve obeys the commands on standard input, a line each, and answers each
// with a line: "ok" and what there is to say, or the kind of the error and it.
func serve(dir string) {
	if os.Getenv(diskEnv) != "" { // before the store, and for this process alone
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
			panic(err)
		}
	}
	s, err := store.NewFile(dir)
	if err != nil {
		panic(err)
	}
	c := &child{catalog: job.New(s), in: bufio.NewReader(os.Stdin), claims: map[string]*job.Claim{}}
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return // the parent has ended, or is done
		}
		answer, err := c.obey(strings.Fields(line))
		if err != nil {
			answer = strings.ReplaceAll(fault.KindOf(err).String()+": "+err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}

// child is an owner in a process of its own.
type child struct {
	catalog *job.Catalog
	in      *bufio.Reader
	claims  map[string]*job.Claim
}

func (c *child) obey(words []string) (string, error) {
	ctx := context.Background()
	id := words[1]
	switch words[0] {
	case "claim":
		claim, _, err := c.catalog.Claim(ctx, id, job.Owner{Node: "node-" + strconv.Itoa(os.Getpid()), Boot: "boot", PID: os.Getpid()}, job.Sighting{})
		if err != nil {
			return "", err
		}
		c.claims[id] = claim
		return fmt.Sprintf("ok %d", claim.Incarnation()), nil
	case "beat":
		return "ok", c.claims[id].Beat(ctx)
	case "save":
		version, _ := strconv.Atoi(words[2])
		return "ok", save(ctx, c.claims[id], version)
	case "end":
		version, _ := strconv.Atoi(words[2])
		return "ok", c.claims[id].End(ctx, doc(version))
	case "save-slowly": // waits for a line in the middle of a file
		version, _ := strconv.Atoi(words[2])
		source := model(version)
		source.Write = func(w io.Writer) error {
			half := content(version)[:source.Bytes/2]
			if _, err := io.WriteString(w, half); err != nil {
				return err
			}
			fmt.Println("half")
			if _, err := c.in.ReadString('\n'); err != nil {
				return err
			}
			_, err := io.WriteString(w, content(version)[len(half):])
			return err
		}
		return "ok", c.claims[id].Save(ctx, doc(version), []job.Source{source})
	case "load":
		state, err := c.catalog.Load(ctx, id)
		return fmt.Sprintf("ok %d", version(state)), err
	case "create":
		return "ok", c.catalog.Create(ctx, id, json.RawMessage(`{}`))
	case "request":
		seq, err := c.catalog.AddRequest(ctx, id, json.RawMessage(strconv.Quote(words[2])))
		return fmt.Sprintf("ok %d", seq), err
	case "save-big":
		version, _ := strconv.Atoi(words[2])
		big := strings.Repeat("x", 1<<20)
		return "ok", c.claims[id].Save(ctx, doc(version), []job.Source{source(fmt.Sprintf("model-%d.safetensors", version), big)})
	}
	panic("no command " + words[0])
}

// content is what the model of a version has in it, doc its state, and version
// the way back: 0 for no state.
func content(version int) string { return strings.Repeat(fmt.Sprintf("weights of %d;", version), 50) }

func model(version int) job.Source {
	return source(fmt.Sprintf("model-%d.safetensors", version), content(version))
}

func doc(version int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"version":%d}`, version)) }

func version(s *job.State) int {
	if s == nil {
		return 0
	}
	var doc struct{ Version int }
	if err := json.Unmarshal(s.Doc, &doc); err != nil {
		panic(err)
	}
	return doc.Version
}

func source(name, content string) job.Source {
	return job.Source{Name: name, Bytes: int64(len(content)), Write: func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}}
}

// save saves a version: its model, and an optimizer state that all versions
// share.
func save(ctx context.Context, c *job.Claim, version int) error {
	return c.Save(ctx, doc(version), []job.Source{model(version), source("optimizer-0-1.safetensors", "momentum")})
}

// process is a child, seen from its parent.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a child. It is killed at the end of the test if it still runs.
func start(t *testing.T, dir string, attr *syscall.SysProcAttr, env ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), childEnv+"="+dir), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{t: t, cmd: cmd, in: in, out: bufio.NewReader(pipe)}
}

// tell sends a command. The child may be dead.
func (p *process) tell(format string, args ...any) { _, _ = fmt.Fprintf(p.in, format+"\n", args...) }

// answer waits for the next answer; false: the child is dead.
func (p *process) answer() (string, bool) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

// ask is tell and answer for a child that lives.
func (p *process) ask(format string, args ...any) string {
	p.t.Helper()
	p.tell(format, args...)
	answer, ok := p.answer()
	require.True(p.t, ok, "the child has died")
	return answer
}

// kill is kill -9. The process is gone when it returns.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends the child in peace.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close())
	require.NoError(p.t, p.cmd.Wait())
}

// openStore returns the catalog of a store in a folder.
func openStore(t *testing.T, dir string) *job.Catalog {
	t.Helper()
	return job.New(openFile(t, dir))
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

// keys lists what a store has of the incarnations of a job, below their folder.
func keys(t *testing.T, s store.Store, id string) []string {
	t.Helper()
	var keys []string
	prefix := "jobs/" + id + "/incarnations/"
	for o, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		keys = append(keys, strings.TrimPrefix(o.Key, prefix))
	}
	return keys
}

// readAll reads a file of a state, and checks it.
func readAll(t *testing.T, c *job.Catalog, id string, state *job.State, name string) string {
	t.Helper()
	for _, f := range state.Files {
		if f.Name == name {
			r, err := c.OpenFile(t.Context(), id, state.Incarnation, f)
			require.NoError(t, err)
			defer r.Close()
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			return string(b)
		}
	}
	require.Fail(t, "no such file", name)
	return ""
}
