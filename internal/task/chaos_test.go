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
		"kill=0.1,hang=0.02,nan=0.02,slow=0.1,seed=7": {Kill: 0.1, Hang: 0.02, Nan: 0.02, Slow: 0.1, Seed: 7},
		" kill=1 , seed=18446744073709551615 ":        {Kill: 1, Seed: 1<<64 - 1},
		"kill=0.7,nan=0.2,slow=0.1":                   {Kill: 0.7, Nan: 0.2, Slow: 0.1},
		"seed=3":                                      {Seed: 3},
		"none":                                        nil,
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
		"kill=0.9,hang=0.2": "add up to 1.1",
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
