package python

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// stragglerTime is how long one that was killed is waited for, in ms.
const stragglerTime = 1000

// killStragglers kills the processes that a runtime's programs started and moved
// to groups of their own, so that they did not end with their worker. They are
// known by the runtime's socket, which is in the environment of all.
func killStragglers(dir string) {
	mark := []byte("TROUPE_SOCKET=" + socketIn(dir) + "\x00")
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range list {
		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil && pid != os.Getpid() {
			killMarked(pid, mark)
		}
	}
}

// killMarked kills a process whose environment holds a mark, and waits.
func killMarked(pid int, mark []byte) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || !bytes.Contains(env, mark) {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	env, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || !bytes.Contains(env, mark) { // the number is another's by now
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, stragglerTime)
}
