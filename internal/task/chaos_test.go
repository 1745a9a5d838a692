package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

func TestParseChaos(t *testing.T) {
	for text, want := range map[string]*messages.ChaosPlan{
		"kill=0.1,hang=0.02,nan=0.02,slow=0.1,seed=7":                           {Kill: 0.1, Hang: 0.02, Nan: 0.02, Slow: 0.1, Seed: 7},
		" kill=1 , seed=18446744073709551615 ":                                  {Kill: 1, Seed: 1<<64 - 1},
		"kill=0.7,nan=0.7,slow=1":                                               {Kill: 0.7, Nan: 0.7, Slow: 1}, // each is drawn for itself
		"freeze=0.02,corrupt=0.03,disk-full=0.04,store-down=10s,crash-job=0.05": {Freeze: 0.02, Corrupt: 0.03, DiskFull: 0.04, StoreDownMs: 10_000, CrashJob: 0.05},
		"store-down=1us": {StoreDownMs: 1},
		"seed=3":         {Seed: 3},
		"none":           nil,
	} {
		got, err := task.ParseChaos(text)
		require.NoError(t, err, text)
		require.Truef(t, proto.Equal(want, got), "%q: %v", text, got)
	}
}

func TestParseChaosRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                  `"" is not name=value`,
		"kill":              `"kill" is not name=value`,
		"kill=0.1,":         `"" is not name=value`,
		"Kill=0.1":          `there is no "Kill"`,
		"fire=0.1":          `there is no "fire"`,
		"kill=0.1,kill=0.1": "kill is given twice",
		"seed=1,seed=1":     "seed is given twice",
		"kill=x":            "kill=x is no number",
		"kill=":             "kill= is no number",
		"kill=1e999":        "kill=1e999 is no number",
		"seed=1.5":          "seed=1.5 is no number",
		"seed=-1":           "seed=-1 is no number",
		"kill=-0.1":         "chaos kill=-0.1: give a share in [0, 1]",
		"nan=NaN":           "chaos nan=NaN: give a share in [0, 1]",
		"slow=+Inf":         "chaos slow=+Inf",
		"freeze=2":          "chaos freeze=2: give a share in [0, 1]",
		"corrupt=-1":        "chaos corrupt=-1: give a share in [0, 1]",
		"disk-full=NaN":     "chaos disk-full=NaN: give a share in [0, 1]",
		"disk_full=0.1":     `there is no "disk_full"`,
		"crash-job=1.5":     "chaos crash-job=1.5: give a share in [0, 1]",
		"store-down=10":     "store-down=10 is no duration",
		"store-down=-1s":    "store-down=-1s is no duration",
		"store-down=25h":    "chaos store-down of 90000000 ms: give at most 24h0m0s",
	} {
		_, err := task.ParseChaos(text)
		require.ErrorContains(t, err, says, text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
	}
}

func FuzzParseChaos(f *testing.F) {
	f.Add("kill=0.1,hang=0.02,nan=0.02,slow=0.1,seed=7")
	f.Add("none")
	f.Add("kill=NaN,,=")
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := task.ParseChaos(text)
		if err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			return
		}
		asked := sound()
		asked.Options.Chaos = plan
		_, err = task.Resolve(asked)
		require.NoError(t, err, "what ParseChaos takes, Resolve takes")
	})
}
