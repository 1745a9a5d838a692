package plane_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/plane/planetest"
)

// roleEnv makes this test binary play a process of its own: see TestMain.
const roleEnv = "TROUPE_PLANE_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "hold":
		hold(os.Getenv("DIR"))
	case "fill":
		fill(os.Getenv("DIR"))
	}
	os.Exit(m.Run())
}

func open(t *testing.T, cfg config.Scratch) *plane.Scratch {
	t.Helper()
	s, err := plane.OpenScratch(cfg, planetest.Node, func(warning string) { t.Error(warning) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestScratchConforms(t *testing.T) {
	planetest.Run(t, func(t *testing.T) plane.Space { return open(t, config.Scratch{Dir: t.TempDir()}) })
}

func TestScratchIsPrivateAndGoneAfterClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	s := open(t, config.Scratch{Dir: dir})
	info, err := os.Stat(s.Folder())
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	d, err := s.Create("a", 1)
	require.NoError(t, err)
	info, err = os.Stat(d.Path())
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	require.NoError(t, s.Close())
	require.NoError(t, d.Abort())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestScratchRefusesABaseThatOthersMayUse(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, fmt.Sprintf("troupe-%d", os.Getuid()))
	require.NoError(t, os.Mkdir(base, 0o755))
	_, err := plane.OpenScratch(config.Scratch{Dir: dir}, "n1", nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, base)
	require.NoError(t, os.Remove(base))
	require.NoError(t, os.Symlink(t.TempDir(), base))
	_, err = plane.OpenScratch(config.Scratch{Dir: dir}, "n1", nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
}

func TestScratchChoosesMemoryWhereThereIsRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var warnings []string
	s, err := plane.OpenScratch(config.Scratch{Limit: 1 << 50}, "n1", func(w string) { warnings = append(warnings, w) })
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "/dev/shm")
	require.Equal(t, os.TempDir(), filepath.Dir(filepath.Dir(s.Folder())))
}

func TestScratchReservesRealBlocks(t *testing.T) {
	s := open(t, config.Scratch{Dir: t.TempDir()})
	d, err := s.Create("a", 1<<20)
	require.NoError(t, err)
	info, err := os.Stat(d.Path())
	require.NoError(t, err)
	require.Zero(t, info.Size(), "the length tells what was written")
	require.GreaterOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20))
	require.NoError(t, d.Abort())
	require.NoFileExists(t, d.Path())
}

func TestAScratchWithoutRoomIsUnavailable(t *testing.T) {
	for name, cfg := range map[string]config.Scratch{
		"over its limit":       {Dir: t.TempDir(), Limit: 1 << 20},
		"over the file system": {Dir: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, cfg)
			_, err := s.Create("a", 1<<60)
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
			require.ErrorContains(t, err, s.Folder())
			require.ErrorContains(t, err, "fewer functions")
			require.Equal(t, int64(0), s.Usage().Bytes)
			left, err := os.ReadDir(s.Folder())
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	_, err := plane.OpenScratch(config.Scratch{Dir: t.TempDir(), Limit: -1}, "n1", nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err), err)
}

// A tiny file system of our own, where this process may mount one: in a mount
// namespace, so that it ends with the child.
func TestAFullDiskIsUnavailable(t *testing.T) {
	cmd := child("fill", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	require.True(t, err == nil || cmd.ProcessState == nil, "%v", err) // nil state: no namespaces here
}

// fill reserves more than its file system has, and exits with 0 when that went
// as it should or when no file system could be mounted.
func fill(dir string) {
	fail := func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
		os.Exit(1)
	}
	_ = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		fmt.Println("no file system of our own here:", err)
		os.Exit(0)
	}
	s, err := plane.OpenScratch(config.Scratch{Dir: dir}, "n1", nil)
	if err != nil {
		fail("open: %v", err)
	}
	var drafts []plane.Draft
	for i := range 3 {
		d, err := s.Create(fmt.Sprint(i), 300<<10)
		if err != nil {
			fail("draft %d: %v", i, err)
		}
		drafts = append(drafts, d)
	}
	if _, err := s.Create("3", 300<<10); fault.KindOf(err) != fault.Unavailable {
		fail("a fourth draft: %v", err)
	}
	for i, d := range drafts { // what was reserved can be written although the disk is full
		if _, err := d.Write(make([]byte, 300<<10)); err != nil {
			fail("write %d: %v", i, err)
		}
		if _, err := d.Seal(); err != nil {
			fail("seal %d: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		fail("close: %v", err)
	}
	fmt.Println("full disk: as it should be")
	os.Exit(0)
}

func TestOnlyTheScratchOfKilledProcessesIsSwept(t *testing.T) {
	dir := t.TempDir()
	killed, folderOfKilled := startHolder(t, dir)
	_, folderOfLiving := startHolder(t, dir)
	require.DirExists(t, folderOfKilled, "a living one is not swept by the next to start")

	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	require.FileExists(t, filepath.Join(folderOfKilled, "held"))
	s := open(t, config.Scratch{Dir: dir})
	require.NoDirExists(t, folderOfKilled)
	require.FileExists(t, filepath.Join(folderOfLiving, "held"))
	require.DirExists(t, s.Folder())
}

// Processes that start, sweep and close at once never take a living one's folder.
func TestOpenAndCloseRace(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			for range 50 {
				s, err := plane.OpenScratch(config.Scratch{Dir: dir}, "n1", nil)
				if err == nil {
					_, err = s.Create("a", 1)
				}
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
}

// hold opens a scratch with one sealed key, says where, and waits to be killed.
func hold(dir string) {
	s, err := plane.OpenScratch(config.Scratch{Dir: dir}, "n1", nil)
	if err == nil {
		var d plane.Draft
		if d, err = s.Create("held", 0); err == nil {
			_, err = d.Seal()
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.Folder())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test's end of the pipe goes
	os.Exit(0)
}

func startHolder(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := child("hold", dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	require.DirExists(t, lines.Text())
	return cmd, lines.Text()
}

func child(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "DIR="+dir)
	return cmd
}
