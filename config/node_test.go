package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestDefaultNodeIsValid(t *testing.T) {
	t.Setenv("TROUPE_STORE", "mem://")
	n := config.DefaultNode()
	require.NoError(t, n.Validate())
	require.Equal(t, config.Cores(), n.Slots)
	require.Equal(t, "mem://", n.Store)
}

func TestNodeValidateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *config.Node)
		says   string
	}{
		"no name":          {func(n *config.Node) { n.Name = "" }, "no name"},
		"no slots":         {func(n *config.Node) { n.Slots = 0 }, "slots 0"},
		"too many slots":   {func(n *config.Node) { n.Slots = config.MaxSlots + 1 }, "slots 65537 is out of range: give 1 to 65536"},
		"negative threads": {func(n *config.Node) { n.Threads = -1 }, "threads -1"},
		"no store":         {func(n *config.Node) { n.Store = "" }, "--store"},
		"relative cache":   {func(n *config.Node) { n.Cache = "cache" }, `cache "cache" is no absolute path: give one, such as /var/cache/troupe`},
		"cache below 0":    {func(n *config.Node) { n.CacheLimit = -1 }, "cache limit of -1 bytes"},
		"unknown jobs":     {func(n *config.Node) { n.Jobs = "thread" }, `jobs do not run "thread": give one of in-process, process`},
		"jobs apart":       {func(n *config.Node) { n.Jobs, n.Store = "process", "mem://" }, `no other process sees the store mem://: give --store file:///folder, or --jobs in-process`},
		"unknown policy":   {func(n *config.Node) { n.Policy = "luck" }, `no policy "luck": give one of static, throughput`},
		"scratch below 0":  {func(n *config.Node) { n.Scratch.Limit = -1 }, "-1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TROUPE_STORE", "mem://")
			n := config.DefaultNode()
			c.change(&n)
			err := n.Validate()
			require.ErrorContains(t, err, c.says)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

func TestThreadsPerSlot(t *testing.T) {
	require.Equal(t, 3, config.Node{Threads: 3, Slots: 1}.ThreadsPerSlot(), "what was asked for")
	require.Equal(t, config.Cores(), config.Node{Slots: 1}.ThreadsPerSlot(), "one slot has all cores")
	require.Equal(t, 1, config.Node{Slots: config.MaxSlots}.ThreadsPerSlot(), "never none")
}

func TestDefaultStore(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"TROUPE_STORE is taken as it is":   {map[string]string{"TROUPE_STORE": "mem://", "HOME": "/home/ann"}, "mem://"},
		"the user's data folder":           {map[string]string{"XDG_DATA_HOME": "/data", "HOME": "/home/ann"}, "file:///data/troupe"},
		"a relative folder does not count": {map[string]string{"XDG_DATA_HOME": "data", "HOME": "/home/ann"}, "file:///home/ann/.local/share/troupe"},
		"odd characters are escaped":       {map[string]string{"HOME": "/home/an n#?%"}, "file:///home/an%20n%23%3F%25/.local/share/troupe"},
		"nothing says where":               {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, config.DefaultStore(func(k string) string { return c.env[k] }))
		})
	}
}

func TestDefaultCache(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"/cache/troupe": {"XDG_CACHE_HOME": "/cache", "HOME": "/home/ann"}, "/home/ann/.cache/troupe": {"XDG_CACHE_HOME": "cache", "HOME": "/home/ann"}, "": nil,
	} {
		require.Equal(t, want, config.DefaultCache(func(k string) string { return env[k] }))
	}
}
