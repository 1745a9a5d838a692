package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// childEnv tells the test binary that it is a child, and which.
const childEnv = "TROUPE_STORE_TEST_CHILD"

// runChild does a child's work and exits, or returns in the parent.
func runChild() {
	role, dir, _ := strings.Cut(os.Getenv(childEnv), " ")
	var err error
	switch role {
	case "":
		return
	case "claim":
		err = claimAll(dir)
	case "write":
		err = writeHalf(dir)
	case "full":
		err = fillDisk(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child starts the test binary as a child with its standard pipes. It is
// killed at the end of the test if it still runs.
func child(t *testing.T, role, dir string, attr *syscall.SysProcAttr) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+role+" "+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err = cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, in, bufio.NewReader(pipe)
}

func nothing(io.Writer) error { return nil }

const claims = 1000

// claimAll tries to get every claim, and prints the numbers of those it got.
func claimAll(dir string) error {
	s, err := store.NewFile(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for i := range claims {
		err := s.PutIfAbsent(context.Background(), fmt.Sprintf("jobs/%d/incarnations/1/claim", i), func(w io.Writer) error {
			_, err := fmt.Fprint(w, os.Getpid())
			return err
		})
		switch {
		case err == nil:
			fmt.Println(i)
		case fault.KindOf(err) != fault.Conflict:
			return err
		}
	}
	return nil
}

// Four processes race for a thousand claims: each has exactly one winner, and
// names it.
func TestFourProcessesRaceForClaims(t *testing.T) {
	const racers = 4
	dir := t.TempDir() + "/store"
	cmds, ins, outs := [racers]*exec.Cmd{}, [racers]io.WriteCloser{}, [racers]*bufio.Reader{}
	for i := range racers {
		cmds[i], ins[i], outs[i] = child(t, "claim", dir, nil)
	}
	for i := range racers {
		line, err := outs[i].ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	for i := range racers {
		_, err := io.WriteString(ins[i], "go\n")
		require.NoError(t, err)
	}
	winner := map[int]int{} // claim -> pid
	var won [racers]int
	for i := range racers {
		for {
			var claim int
			if _, err := fmt.Fscanln(outs[i], &claim); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			require.NotContains(t, winner, claim, "two winners")
			winner[claim] = cmds[i].Process.Pid
			won[i]++
		}
		require.NoError(t, cmds[i].Wait())
	}
	require.Len(t, winner, claims, "a claim without a winner")
	t.Logf("won: %v", won)

	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	n := 0
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		r, err := s.Get(t.Context(), o.Key, 0, -1)
		require.NoError(t, err)
		var claim, pid int
		_, err = fmt.Fscan(r, &pid)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		_, err = fmt.Sscanf(o.Key, "jobs/%d/incarnations/1/claim", &claim)
		require.NoError(t, err)
		require.Equal(t, winner[claim], pid)
		n++
	}
	require.Equal(t, claims, n)
}

// writeHalf puts and claims an object each, and waits for its end in the
// middle of both.
func writeHalf(dir string) error {
	s, err := store.NewFile(dir)
	if err != nil {
		return err
	}
	half := func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		fmt.Println("half")
		if err == nil {
			_, err = os.Stdin.Read(make([]byte, 1)) // until the kill; the runtime takes select {} for a deadlock
		}
		return err
	}
	go func() { _ = s.Put(context.Background(), "d/replaced", half) }()
	go func() { _ = s.PutIfAbsent(context.Background(), "d/claimed", half) }()
	return s.Put(context.Background(), "e/new", half)
}

// A writer that is killed in the middle leaves no key, keeps the object that
// was there, and what it does leave is swept; while it lives it is not.
func TestKilledWriterLeavesNoKey(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Put(t.Context(), "d/replaced", text("before")))

	cmd, _, out := child(t, "write", dir, nil)
	for range 3 {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "half\n", line)
	}
	require.Len(t, temps(t, dir), 3)
	age(t, dir)
	swept, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept, "its writer lives and holds the lock")

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Equal(t, []string{"d/replaced"}, keys(t, s))
	r, err := s.Get(t.Context(), "d/replaced", 0, -1)
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, "before", string(b))
	require.NoError(t, s.PutIfAbsent(t.Context(), "d/claimed", nothing), "the claim is free")

	swept, err = s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, swept)
	require.Empty(t, temps(t, dir))
	require.NoDirExists(t, dir+"/e")
	require.Equal(t, []string{"d/claimed", "d/replaced"}, keys(t, s))
}

// fillDisk runs in a mount namespace of its own: it mounts a small file system
// on dir and writes more than fits.
func fillDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	s, err := store.NewFile(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	if err := s.Put(ctx, "d/small", text("kept")); err != nil {
		return err
	}
	for _, key := range []string{"d/big", "new/big", "d/small"} {
		err := s.Put(ctx, key, func(w io.Writer) error {
			for range 1 << 20 / 4096 {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return err
				}
			}
			return nil
		})
		fmt.Printf("%s|%v\n", fault.KindOf(err), err)
	}
	for o, err := range s.List(ctx, "") {
		fmt.Printf("%s %d %v\n", o.Key, o.Size, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	fmt.Println(len(entries))
	return s.Put(ctx, "after/small", text("there is room again"))
}

// A full disk is Unavailable, names the path, and costs nothing that was there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // which makes mounts private, too
	if os.Getuid() != 0 {                                           // a mount needs a user namespace of our own
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	cmd, _, out := child(t, "full", dir, attr)
	b, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "needs root, or user namespaces: sysctl kernel.unprivileged_userns_clone=1")
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Len(t, lines, 5)
	for i, key := range []string{"d/big", "new/big", "d/small"} {
		require.Regexp(t, "^unavailable.*"+dir+"/"+key+": no space left on device$", lines[i])
	}
	require.Equal(t, "d/small 4 <nil>", lines[3])
	require.Equal(t, "1", lines[4], "the folder new is gone again")
}
