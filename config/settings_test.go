package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// user is an environment whose configuration file has that text.
func user(t *testing.T, text string, env map[string]string) (getenv func(string) string, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "troupe", "config.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return func(k string) string {
		if k == "XDG_CONFIG_HOME" {
			return dir
		}
		return env[k]
	}, file
}

func TestTheEnvironmentCountsMoreThanTheFile(t *testing.T) {
	getenv, file := user(t, "# mine\nslots: 8\nstore: file:///srv/troupe\nno-pin: true\n", map[string]string{"TROUPE_SLOTS": "4", "TROUPE_TLS_DIR": "/tls", "TROUPE_GPUS": ""})
	s, err := config.Load(getenv)
	require.NoError(t, err)
	require.Equal(t, file, s.File())
	for key, want := range map[string]config.Setting{
		"slots":   {Value: "4", From: "TROUPE_SLOTS", Env: true},
		"tls-dir": {Value: "/tls", From: "TROUPE_TLS_DIR", Env: true},
		"store":   {Value: "file:///srv/troupe", From: file + ":3"},
		"no-pin":  {Value: "true", From: file + ":4"},
	} {
		got, ok := s.Get(key)
		require.True(t, ok, key)
		require.Equal(t, want, got)
	}
	_, ok := s.Get("gpus")
	require.False(t, ok, "an empty variable says nothing")
}

func TestWithoutAFileNothingIsSet(t *testing.T) {
	for name, env := range map[string]map[string]string{"no file": {"HOME": t.TempDir()}, "no home": nil, "a home that is nowhere": {"HOME": "there"}} {
		t.Run(name, func(t *testing.T) {
			s, err := config.Load(func(k string) string { return env[k] })
			require.NoError(t, err)
			for _, k := range config.Keys() {
				_, ok := s.Get(k.Name)
				require.False(t, ok, k.Name)
			}
		})
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		getenv, _ := user(t, text, nil)
		_, err := config.Load(getenv)
		require.NoError(t, err, text)
	}
}

func TestTheFileIsRefusedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"an unknown key":   {"slots: 1\nslot: 2\n", `config.yaml:2: there is no setting "slot": did you mean "slots"?`},
		"a key twice":      {"slots: 1\nslots: 2\n", "config.yaml:2: slots is set twice"},
		"a list":           {"slots: [1, 2]\n", "config.yaml:1: slots: give one value"},
		"no value":         {"slots:\n", "config.yaml:1: slots: give one value"},
		"an alias":         {"slots: &a 1\nthreads: *a\n", "config.yaml:2: threads: give one value"},
		"no mapping":       {"- slots\n", `config.yaml:1: want lines such as "slots: 8"`},
		"two documents":    {"slots: 1\n---\nslots: 2\n", "there is a second document"},
		"no YAML":          {"slots: 'x\n", "config.yaml: yaml: "},
		"of the train too": {"epochs: 3\n", `there is no setting "epochs"`},
		"a long unknown":   {longKey() + ": 1\n", "there is no setting"},
	} {
		t.Run(name, func(t *testing.T) {
			getenv, _ := user(t, c.text, nil)
			_, err := config.Load(getenv)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func longKey() string {
	b := make([]byte, 900) // YAML has no plain keys that are longer
	for i := range b {
		b[i] = 'y'
	}
	return string(b)
}

func TestAFileThatCannotBeReadIsUnavailable(t *testing.T) {
	getenv, file := user(t, "", nil)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	_, err := config.Load(getenv)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, file)
}

func TestWhatWasMeantIsNear(t *testing.T) {
	names := []string{"store", "slots", "isolate", "listen", "model_id"}
	for typed, meant := range map[string]string{
		"slot": "slots", "lsiten": "listen", "model": "model_id", "Model-ID": "model_id", "STORE": "store",
		"tsore": "store", "x": "", "": "", "colour": "", "sl": "", "parallelism": "", "a": "",
	} {
		says := "want one of: store, slots, isolate, listen, model_id"
		if meant != "" {
			says = fmt.Sprintf("did you mean %q?", meant)
		}
		require.Equal(t, says, config.DidYouMean(typed, names), typed)
	}
}

func FuzzSettings(f *testing.F) {
	for _, text := range []string{"slots: 8\n", "a: [b\n", "? x\n: y\n", "slots: !!int 8\n", "*a", "<<: {slots: 1}\n", "!!binary x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		getenv, _ := user(t, text, nil)
		if _, err := config.Load(getenv); err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err), err)
		}
	})
}
