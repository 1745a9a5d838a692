package job_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/job"
)

const id = "01jobstore"

var me = job.Owner{Node: "parent", Boot: "parent-boot", PID: os.Getpid()}

// race has four processes claim every one of the jobs at once, each once, and
// requires one winner each. The winners live on.
func race(t *testing.T, dir string, jobs, incarnation int) []*process {
	t.Helper()
	racers := make([]*process, 4)
	for i := range racers {
		racers[i] = start(t, dir, nil)
		require.Equal(t, "ok 0", racers[i].ask("load j0"), "it is up")
	}
	for i := range jobs {
		for _, r := range racers {
			r.tell("claim j%d", i)
		}
	}
	for i := range jobs {
		winners := 0
		for _, r := range racers {
			answer, ok := r.answer()
			require.True(t, ok)
			if answer == fmt.Sprintf("ok %d", incarnation) {
				winners++
				continue
			}
			require.Contains(t, answer, fmt.Sprintf("conflict: job j%d runs on node-", i))
		}
		require.Equal(t, 1, winners, "job j%d", i)
	}
	return racers
}

// Of four processes that claim a job exactly one gets it, a fresh job as well
// as that of an owner who was killed, which is free at once.
func TestFourProcessesRaceForAJob(t *testing.T) {
	const jobs = 100
	dir := t.TempDir()
	c := openStore(t, dir)
	for i := range jobs {
		require.NoError(t, c.Create(t.Context(), fmt.Sprintf("j%d", i), json.RawMessage(`{}`)))
	}
	for _, r := range race(t, dir, jobs, 1) {
		r.kill()
	}
	for _, r := range race(t, dir, jobs, 2) {
		r.stop()
	}
	for i := range jobs {
		claim, _, err := c.Claim(t.Context(), fmt.Sprintf("j%d", i), me, job.Sighting{})
		require.NoError(t, err)
		require.EqualValues(t, 3, claim.Incarnation(), "one claim a race")
		require.NoError(t, claim.Release())
	}
}

// owned makes a job that a child owns, in a store of its own.
func owned(t *testing.T) (c *job.Catalog, dir string, owner *process) {
	dir = t.TempDir()
	c = openStore(t, dir)
	require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)))
	owner = start(t, dir, nil)
	require.Equal(t, "ok 1", owner.ask("claim %s", id))
	return c, dir, owner
}

func TestKillingTheOwnerFreesTheJobAtOnce(t *testing.T) {
	c, _, owner := owned(t)
	require.Equal(t, "ok", owner.ask("save %s 1", id))
	_, seen, err := c.Claim(t.Context(), id, me, job.Sighting{})
	requireKind(t, fault.Conflict, err)
	require.ErrorContains(t, err, fmt.Sprintf("node-%d (pid %[1]d), as incarnation 1", owner.cmd.Process.Pid))
	require.Equal(t, owner.cmd.Process.Pid, seen.Owner.PID)

	owner.kill()
	claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 2, claim.Incarnation())
	state, err := c.Load(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 1, version(state))
	require.Equal(t, content(1), readAll(t, c, id, state, "model-1.safetensors"))
	require.NoError(t, claim.Release())
}

// An owner that is frozen keeps its lock, so that only time tells: who has
// watched it without a change of its beat may take over. When it wakes it is
// told, and what it still writes in the middle of a save is nobody's state.
func TestAFrozenOwnerIsReplacedOnlyWhenStale(t *testing.T) {
	c, _, owner := owned(t)
	require.Equal(t, "ok", owner.ask("save %s 1", id))
	_, seen, err := c.Claim(t.Context(), id, me, job.Sighting{})
	requireKind(t, fault.Conflict, err)
	require.Equal(t, "ok", owner.ask("beat %s", id))
	_, now, err := c.Claim(t.Context(), id, me, seen)
	requireKind(t, fault.Conflict, err)
	require.NotEqual(t, seen, now, "its beat has changed")

	owner.tell("save-slowly %s 2", id)
	answer, ok := owner.answer()
	require.True(t, ok)
	require.Equal(t, "half", answer)
	require.NoError(t, owner.cmd.Process.Signal(syscall.SIGSTOP))
	_, _, err = c.Claim(t.Context(), id, me, job.Sighting{})
	requireKind(t, fault.Conflict, err)
	_, _, err = c.Claim(t.Context(), id, me, seen)
	requireKind(t, fault.Conflict, err)
	claim, _, err := c.Claim(t.Context(), id, me, now)
	require.NoError(t, err)
	require.EqualValues(t, 2, claim.Incarnation())
	require.NoError(t, save(t.Context(), claim, 10))

	require.NoError(t, owner.cmd.Process.Signal(syscall.SIGCONT))
	taken := fmt.Sprintf("conflict: job %s was taken over by pid %d (node parent) as incarnation 2", id, me.PID)
	require.Equal(t, taken, owner.ask("go on"))
	require.Equal(t, taken, owner.ask("beat %s", id))
	require.Contains(t, owner.ask("save %s 3", id), "conflict: ")
	require.Equal(t, "ok 10", owner.ask("load %s", id), "it sees it, too")
	state, err := c.Load(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 2, state.Incarnation)
	require.Equal(t, content(10), readAll(t, c, id, state, "model-10.safetensors"))
	require.NoError(t, claim.Release())
}

// A claimer that is frozen between its lock and its claim is in nobody's way.
func TestAFrozenClaimerIsInNobodysWay(t *testing.T) {
	c, dir, owner := owned(t)
	owner.kill()
	path, ok := openFile(t, dir).Path("jobs/" + id + "/incarnations/2/lock-00frozen")
	require.True(t, ok)
	require.NoError(t, os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755))
	frozen, err := os.Create(path)
	require.NoError(t, err)
	defer frozen.Close()
	require.NoError(t, syscall.Flock(int(frozen.Fd()), syscall.LOCK_EX))
	claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 2, claim.Incarnation())
	require.NoFileExists(t, path, "its attempt has failed for good")
	require.NoError(t, claim.Release())
}

// A full disk costs the save at hand, and nothing that was there.
func TestFullDiskKeepsTheStateBefore(t *testing.T) {
	dir := t.TempDir()
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // which makes mounts private, too
	if os.Getuid() != 0 {                                           // a mount needs a user namespace of our own
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	// Needs root, or user namespaces: sysctl kernel.unprivileged_userns_clone=1.
	p := start(t, dir, attr, diskEnv+"=1")
	require.Equal(t, "ok", p.ask("create %s", id))
	require.Equal(t, "ok 1", p.ask("claim %s", id))
	for v := 1; v < 30; v += 3 {
		require.Equal(t, "ok", p.ask("save %s %d", id, v))
		require.Equal(t, "ok", p.ask("save %s %d", id, v+1))
		require.Regexp(t, "^unavailable: .*no space left on device", p.ask("save-big %s %d", id, v+2))
		require.Equal(t, fmt.Sprintf("ok %d", v+1), p.ask("load %s", id))
	}
	require.Equal(t, "ok", p.ask("save %s 30", id))
	require.Equal(t, "ok 30", p.ask("load %s", id))
	p.stop()
}
