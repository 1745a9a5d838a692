// Package netns makes machines for tests: network namespaces that reach each
// other over one bridge, which can be cut. It takes root and the command ip, and
// this machine sees nothing of it.
package netns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// nobody is the hardware address of no machine: what is sent there is lost, and
// who sends it is told nothing, as with a cable that is broken one way.
const nobody = "02:00:00:00:00:fe"

// nets numbers those of this process, of which several tests may have one each.
var nets atomic.Uint64

// Net is some machines, each with one link to the bridge, which is in a namespace
// of its own. Its methods end the test where they fail.
type Net struct {
	t      testing.TB
	prefix string
}

// New makes that many machines, at most 200, which are gone after the test with
// all that runs there.
func New(t testing.TB, count int) *Net {
	t.Helper()
	n := &Net{t: t, prefix: fmt.Sprintf("troupe%d-%d", os.Getpid(), nets.Add(1))}
	t.Cleanup(func() {
		for i := range count {
			_ = exec.Command("ip", "netns", "del", n.Namespace(i)).Run()
		}
		_ = exec.Command("ip", "netns", "del", n.bridge()).Run()
	})
	n.ip("netns", "add", n.bridge())
	n.ip("-n", n.bridge(), "link", "add", "br0", "type", "bridge")
	n.ip("-n", n.bridge(), "link", "set", "br0", "up")
	for i := range count {
		at := n.Namespace(i)
		n.ip("netns", "add", at)
		n.ip("link", "add", "eth0", "netns", at, "type", "veth", "peer", "name", port(i), "netns", n.bridge())
		n.ip("-n", n.bridge(), "link", "set", port(i), "master", "br0", "up")
		n.ip("-n", at, "addr", "add", n.Address(i)+"/24", "dev", "eth0")
		n.ip("-n", at, "addr", "add", n.Address6(i)+"/64", "dev", "eth0", "nodad")
		n.ip("-n", at, "link", "set", "eth0", "up")
		n.ip("-n", at, "link", "set", "lo", "up")
	}
	return n
}

func (n *Net) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v: %v: %s(network namespaces take root and the command ip, from iproute2; TROUPE_NO_NETNS=1 leaves these tests out)", args, err, out)
	}
}

func (n *Net) bridge() string { return n.prefix + "-br" }

func port(i int) string { return fmt.Sprint("p", i) }

// Namespace is the name of a machine's, for [Command].
func (n *Net) Namespace(i int) string { return fmt.Sprintf("%s-%d", n.prefix, i) }

// Address is where machine i is: 10.77.0.1 and so on.
func (n *Net) Address(i int) string { return fmt.Sprint("10.77.0.", i+1) }

// Address6 is where else it is: fd77::1 and so on.
func (n *Net) Address6(i int) string { return fmt.Sprintf("fd77::%x", i+1) }

// Cut takes a machine off the network, of which it is told nothing.
func (n *Net) Cut(i int) {
	n.t.Helper()
	n.ip("-n", n.bridge(), "link", "set", port(i), "down")
}

// Heal puts it back.
func (n *Net) Heal(i int) {
	n.t.Helper()
	n.ip("-n", n.bridge(), "link", "set", port(i), "up")
}

// Sever loses, from now on, all that one machine sends to another. What comes the
// other way arrives.
func (n *Net) Sever(from, to int) {
	n.t.Helper()
	for _, address := range []string{n.Address(to), n.Address6(to)} {
		n.ip("-n", n.Namespace(from), "neigh", "replace", address, "lladdr", nobody, "dev", "eth0", "nud", "permanent")
	}
}

// Mend ends what [Net.Sever] began.
func (n *Net) Mend(from, to int) {
	n.t.Helper()
	for _, address := range []string{n.Address(to), n.Address6(to)} {
		n.ip("-n", n.Namespace(from), "neigh", "del", address, "dev", "eth0")
	}
}

// Command is a command on the machine of a namespace, or for "" on this one. The
// process that is started becomes the command.
func Command(ctx context.Context, namespace, name string, args ...string) *exec.Cmd {
	if namespace == "" {
		return exec.CommandContext(ctx, name, args...)
	}
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", namespace, name}, args...)...)
}
