package archtest

import "slices"

// maxLines is the length from which a file that nobody generated must be split.
const maxLines = 600

// A rule says what the packages that match a pattern may import of ours, in
// files that are not tests.
//
// Patterns are slash-separated paths below the module: "*" stands for one
// element, a last "..." for any number of them, none included. Of several rules
// that match a package the one with the most literal elements decides. A tree
// ("store/...") may always import within itself.
type rule struct {
	packages string
	may      []string
}

// importTable is the law. A package that no rule matches may not exist; what no
// rule grants is forbidden. So nobody imports cmd, bench or examples.
func importTable() []rule {
	leaves := []string{"internal/fault", "internal/wire", "internal/invariant", "internal/failpoint", "internal/task", "internal/jobjson", "internal/httpfault", "internal/sse", "internal/loopback", "messages", "tensor", "config"}
	seams := []string{"store/...", "functions/...", "plane/..."}
	public := slices.Concat([]string{"messages", "tensor", "config", "actors/...", "cluster/...", "sim/..."}, seams)
	return []rule{
		{packages: "messages"},
		{packages: "python"},
		{packages: "internal/fault"},
		{packages: "internal/invariant"},
		{packages: "internal/failpoint"},
		{packages: "internal/archtest"},
		{packages: "internal/chart"},
		{packages: "internal/netns"},
		{packages: "internal/mutants/..."},
		{packages: "internal/wire", may: []string{"internal/fault", "messages", "plane"}},            // plane.Ref is the twin of TensorRef
		{packages: "internal/task", may: []string{"internal/fault", "config", "messages", "tensor"}}, // tensor reads what --merge names
		{packages: "internal/sse"},
		{packages: "internal/pki", may: []string{"internal/fault"}},
		{packages: "internal/loopback"},
		{packages: "internal/httpfault", may: []string{"internal/fault"}},
		{packages: "internal/ranged", may: []string{"internal/fault", "internal/httpfault"}},
		{packages: "internal/jobjson", may: []string{"internal/fault", "internal/httpfault", "internal/sse", "internal/wire", "internal/task", "config", "messages", "store/..."}},
		{packages: "config", may: []string{"internal/fault"}},
		{packages: "tensor/...", may: []string{"internal/fault"}},

		{packages: "store/...", may: []string{"internal/fault", "internal/failpoint", "config", "tensor"}},
		{packages: "store/remote", may: []string{"internal/fault", "internal/httpfault", "internal/ranged", "store"}},
		{packages: "plane/remote", may: []string{"internal/fault", "internal/httpfault", "internal/ranged", "plane"}},
		{packages: "plane/...", may: []string{"internal/fault", "config", "tensor"}},
		{packages: "functions/...", may: []string{"internal/fault", "internal/httpfault", "internal/loopback", "config", "tensor"}},
		{packages: "functions/python/...", may: []string{"internal/fault", "config", "tensor", "functions", "functions/child", "python"}},
		{packages: "functions/isolate/...", may: []string{"internal/fault", "config", "tensor", "functions", "functions/child"}},

		{packages: "actors", may: slices.Concat(leaves, seams, []string{"actors/*"})},
		{packages: "actors/*/...", may: slices.Concat(leaves, seams, []string{"actors/actorkit"})},
		{packages: "actors/actorkit", may: []string{"messages", "internal/fault", "internal/wire", "internal/invariant"}},
		{packages: "actors/testkit/...", may: []string{"messages", "internal/fault", "internal/wire", "internal/invariant", "actors/actorkit"}},

		{packages: "cluster/...", may: []string{"messages", "internal/fault", "internal/httpfault", "internal/loopback", "internal/pki", "internal/wire", "config", "store/..."}},
		{packages: "api/...", may: []string{"messages", "internal/fault", "internal/wire", "internal/task", "internal/jobjson", "internal/httpfault", "internal/sse", "internal/loopback", "internal/pki", "config", "store/..."}},
		{packages: "sim/...", may: slices.Concat([]string{"messages", "internal/fault", "internal/task", "config", "tensor", "actors/..."}, seams)},

		{packages: "examples/...", may: public},
		{packages: "bench/...", may: public},
		{packages: "cmd/...", may: slices.Concat(public, []string{"api/...", "python", "internal/..."})},
	}
}

// testOnly are packages for tests, and for those of testOnlyUsers.
func testOnly() []string {
	return []string{"actors/testkit/...", "store/storetest", "plane/planetest", "functions/functionstest", "functions/fake", "api/apitest", "internal/netns"}
}

// testOnlyUsers may import what is testOnly though they are no tests.
func testOnlyUsers() []string { return []string{"sim/...", "bench/..."} }

// owners says who may import a package of somebody else's, tests included.
func owners() []rule {
	return []rule{
		{packages: "github.com/asynkron/protoactor-go/remote/...", may: []string{"cluster/..."}},
		{packages: "github.com/asynkron/protoactor-go/cluster/..."}, // nobody: design and docs/adr say why
	}
}

// folders are the top-level folders. A new one needs an ADR. Those whose name
// begins with a dot are not looked at, nor is bin, which holds what make builds.
func folders() []string {
	return []string{
		"actors", "api", "bench", "cluster", "cmd", "config", "docs", "examples", "functions", "internal", "messages",
		"plane", "python", "sim", "store", "tensor", "testdata", "tools",
	}
}

// A ban forbids a call in the packages that match a pattern. Tests that run in
// a bubble of testing/synctest are free.
type ban struct {
	call    string // as in "time.Sleep"
	in      string // pattern
	tests   bool   // only in tests
	except  string // the one file that may, below the module
	instead string // what to do
}

func bans() []ban {
	return []ban{
		{call: "time.Now", in: "actors/...", except: "actors/actorkit/rim.go", instead: "ask the injected clock"},
		{call: "time.Sleep", in: "actors/...", instead: "let the injected clock send a message"},
		{call: "time.Sleep", in: "...", tests: true, instead: "await an event"},
	}
}
