package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rehearsed: a store that is away, and a TrainJob that crashes again and again,
// cost nothing but time.
func TestE2EChaosOnTheStoreAndTheJob(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	job := func(more ...string) (result, ended) {
		e := h.troupe(t, append([]string{"run", "mlp", "-d", "digits", "-e", "4", "-b", "16", "-p", "4", "--static", "--lr", "0.1", "-o", "json"}, more...)...)
		require.Zero(t, e.code, e.err)
		return parse(t, e.out), e
	}
	calm, _ := job()
	for chaos, says := range map[string]string{
		"store-down=2s":                 `warning: .*chaos has the store down for 2s`,
		"crash-job=0.3":                 `(?m)^job \w+ goes on in epoch \d, after round \d(;.*)?$`,
		"crash-job=0.3,seed=3":          `(?m)^job \w+ goes on in epoch \d, after round \d(;.*)?$`,
		"crash-job=0.2,store-down=3s":   `warning: .*chaos has the store down for 3s`,
		"crash-job=0.2,kill=0.1,seed=1": `goes on in epoch`,
	} {
		t.Run(chaos, func(t *testing.T) {
			t.Parallel()
			r, e := job("--chaos", chaos)
			require.Regexp(t, says, e.err)
			require.Equal(t, "SUCCEEDED", r.State)
			require.Len(t, r.Epochs, 4)
			for i, epoch := range r.Epochs {
				require.Equal(t, i+1, epoch.Epoch)
				require.Equal(t, 1437, epoch.Samples)
			}
			require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
		})
	}
}

// said is what a running process has written to stderr.
type said struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (s *said) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		s.mu.Lock()
		s.text.WriteString(line)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *said) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), text)
}

// listen starts a process and takes in what it says.
func listen(t *testing.T, cmd *exec.Cmd) *said {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	says, done := &said{}, make(chan struct{})
	go func() {
		defer close(done)
		says.read(stderr)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return says
}

// A store whose folder goes away, and comes back as it was a while ago: training
// goes on, nothing is written to where the folder has gone, and what is there
// again has all that the job needs.
func TestE2EStoreThatIsRestoredFromABackup(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command(t, long...)
	says := listen(t, cmd)
	await(t, patience, "a first epoch is stored", func() bool { return h.reached(t) > 1 })
	moved := filepath.Join(t.TempDir(), "moved")
	id, err := os.ReadFile(filepath.Join(h.store, "store.json"))
	require.NoError(t, err)

	require.NoError(t, os.Rename(h.store, moved))
	await(t, patience, "a warning", func() bool { return says.count("the folder of the store, "+h.store+", is away") > 0 })
	gone := home{store: moved}
	before, stored := says.count("\nepoch "), gone.reached(t)
	await(t, patience, "training goes on", func() bool { return says.count("\nepoch ") > before+3 })
	require.Equal(t, stored, gone.reached(t))
	require.NoDirExists(t, h.store)

	require.NoError(t, os.Mkdir(h.store, 0o700)) // a backup from before the job began
	require.NoError(t, os.WriteFile(filepath.Join(h.store, "store.json"), id, 0o600))
	await(t, patience, "a state is stored again", func() bool { return h.reached(t) > before })
	require.Equal(t, stored, gone.reached(t))
	e := h.troupe(t, "run", "--resume", "last")
	require.Equal(t, 4, e.code, e.err)
	require.Contains(t, e.err, " runs on ")

	at := h.reached(t)
	require.NoError(t, cmd.Process.Kill())
	r := h.begin(t, "--resume", "last")
	line, err := r.err.ReadString('\n')
	require.NoError(t, err)
	var epoch, round int
	_, err = fmt.Sscanf(line[strings.Index(line, " goes on"):], " goes on in epoch %d, after round %d", &epoch, &round)
	require.NoError(t, err, line)
	require.GreaterOrEqual(t, epoch, at)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 8, r.wait(t).code)
}

// A store that takes nothing for a while: training goes on, people hear of it
// once, what was stored stays, and the state is stored when that is possible
// again.
func TestE2EStoreThatTakesNothingForAWhile(t *testing.T) {
	t.Parallel()
	const complaint = "warning: the store does not take the job's state: "
	for name, fault := range map[string]struct {
		prepare      func(t *testing.T, h home, cmd *exec.Cmd)
		damage, mend func(t *testing.T, store string)
		says         string
	}{
		"a full disk": {onSmallDisk, fill, empty, "no space left on device"},
		"no right to write": {
			asNobody,
			func(t *testing.T, store string) { allow(t, store, 0o555) },
			func(t *testing.T, store string) { allow(t, store, 0o755) },
			"permission denied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			cmd := h.command(t, long...)
			fault.prepare(t, h, cmd)
			says := listen(t, cmd)
			// The same files, whatever is mounted for the process alone.
			seen := h
			seen.store = filepath.Join(fmt.Sprintf("/proc/%d/root", cmd.Process.Pid), h.store)
			await(t, patience, "a first epoch is stored", func() bool { return says.count("\nepoch ") > 0 && seen.reached(t) > 1 })

			broken := time.Now()
			fault.damage(t, seen.store)
			await(t, patience, "a warning", func() bool { return says.count(complaint) > 0 })
			before, stored := says.count("\nepoch "), seen.reached(t)
			await(t, patience, "training goes on", func() bool { return says.count("\nepoch ") > before+3 })
			require.Equal(t, stored, seen.reached(t), "the state before is whole")
			fault.mend(t, seen.store)
			await(t, patience, "a state is stored again", func() bool { return seen.reached(t) > before })
			require.LessOrEqual(t, says.count(complaint), 1+int(time.Since(broken)/time.Minute), "one warning a minute")
			require.Positive(t, says.count(fault.says))

			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			c := newHome(t)
			require.NoError(t, os.CopyFS(c.store, os.DirFS(seen.store)))
			require.NoError(t, cmd.Process.Kill())
			at := c.reached(t)
			require.Greater(t, at, before)
			r := c.begin(t, "--resume", "last")
			line, err := r.err.ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, line, fmt.Sprintf("goes on in epoch %d, after round ", at))
			require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 8, r.wait(t).code)
		})
	}
}

// onSmallDisk has the store lie on a disk of its own, of few bytes.
func onSmallDisk(t *testing.T, h home, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, os.MkdirAll(h.store, 0o755))
	cmd.Args = append([]string{"sh", "-c", `mount -t tmpfs -o size=4m none "$0" && exec "$@"`, h.store, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // which makes mounts private, too
	if os.Getuid() != 0 {                                                     // a mount needs a user namespace of our own
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
}

const filler = "filler"

// fill leaves no room on the store's disk.
func fill(t *testing.T, store string) {
	t.Helper()
	f, err := os.Create(filepath.Join(store, filler))
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
}

func empty(t *testing.T, store string) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(store, filler)))
}

// asNobody has a process of root run as somebody to whom permissions mean
// something.
func asNobody(t *testing.T, h home, cmd *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	require.NoError(t, os.MkdirAll(h.store, 0o755))
	for _, dir := range []string{filepath.Dir(binary), filepath.Dir(h.dir)} {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	for _, dir := range []string{h.dir, h.tmp, filepath.Dir(h.store), h.store} {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// allow gives all folders of jobs a mode.
func allow(t *testing.T, store string, mode os.FileMode) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(store, "jobs", "*", "incarnations", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		require.NoError(t, os.Chmod(dir, mode))
	}
}
