package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Infer is that of a company without models.
func (c *fakeCompany) Infer(_ context.Context, id string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, fault.New("fake.infer", fault.NotFound, "no model %s", id)
}

// oracle is a company that has an answer.
type oracle struct {
	*fakeCompany
	answer string
	err    error
	until  bool // the context ends

	id, data string // as asked
}

func (o *oracle) start(log *zap.Logger, node config.Node) (company, error) {
	_, err := o.fakeCompany.start(log, node)
	return o, err
}

func (o *oracle) Infer(ctx context.Context, id string, data json.RawMessage) (json.RawMessage, error) {
	o.id, o.data = id, string(data)
	if o.until {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return json.RawMessage(o.answer), o.err
}

func (o *oracle) run(w *world, args ...string) run {
	p := &program{env: w.env, start: o.start}
	code := p.Run(args)
	return run{code, w.out.String(), w.err.String()}
}

func dataFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestInferPrintsThePredictionsAndNothingElse(t *testing.T) {
	for name, text := range map[string]string{
		"an array": "[[1, 2], [3, 4]]", "an object": "{\"data\": [[1, 2], [3, 4]]}\n", "with a byte order mark": "\ufeff [[1, 2], [3, 4]]\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			o := &oracle{fakeCompany: succeeded(), answer: `[[0.25, 0.75], "<b>"]`}
			r := o.run(newWorld(t), "infer", "-n", "01job", "--datafile", dataFile(t, text), "--store", "mem://", "--threads", "2")
			require.Zero(t, r.code, r.err)
			require.Equal(t, "{\"predictions\":[[0.25,0.75],\"<b>\"]}\n", r.out)
			require.Empty(t, r.err)
			require.Equal(t, "01job", o.id)
			require.JSONEq(t, "[[1,2],[3,4]]", o.data)
			require.Equal(t, 1, o.node.Slots)
			require.Equal(t, 2, o.node.Threads)
			require.Equal(t, "mem://", o.node.Store)
			require.Equal(t, 1, o.closed)
		})
	}
}

func TestInferReadsStandardInput(t *testing.T) {
	w := newWorld(t)
	w.In = strings.NewReader(`{"data": [1, 2, 3]}`)
	o := &oracle{fakeCompany: succeeded(), answer: "[1]"}
	r := o.run(w, "infer", "--id", "01job", "--datafile", "-")
	require.Zero(t, r.code, r.err)
	require.Equal(t, "[1, 2, 3]", o.data)
	require.Equal(t, config.Cores(), o.node.Threads, "one function has all cores")
}

func TestInferRefusesWhatIsNoListOfSamples(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"nothing":         {"", "empty: want a JSON array of samples"},
		"blanks":          {" \n", "empty: want a JSON array of samples"},
		"no JSON":         {"[1,\n  2,\n  x]", "line 3, column 3: invalid character 'x'"},
		"the first byte":  {"x", "line 1, column 1: invalid character 'x'"},
		"a second line":   {"[\nNaN]", "line 2, column 1: invalid character 'N'"},
		"an open array":   {"[1, 2", "line 1, column 5: unexpected end of JSON input"},
		"two arrays":      {"[1]\n[2]", "line 2, column 1: invalid character '[' after top-level value"},
		"a number":        {"7", "want a JSON array of samples, not 7"},
		"a text":          {`"x"`, `want a JSON array of samples, not "x"`},
		"null":            {"null", "want a JSON array of samples, not null"},
		"no samples":      {"[]", "there are no samples"},
		"another field":   {`{"samples": [1]}`, `the object has the fields ["samples"]: want data alone`},
		"a further field": {`{"data": [1], "model_id": 3}`, `the object has the fields ["data" "model_id"]`},
		"data, no array":  {`{"data": {}}`, "want a JSON array of samples, not {}"},
		"data, null":      {`{"data": null}`, "want a JSON array of samples, not null"},
		"data, empty":     {`{"data": [ ]}`, "there are no samples"},
		"too long":        {"[" + strings.Repeat(" ", 15<<20) + "1]", "is longer than 15 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oracle{fakeCompany: succeeded()}
			path := dataFile(t, c.text)
			r := o.run(newWorld(t), "infer", "-n", "01job", "--datafile", path)
			require.Equal(t, 2, r.code)
			require.Contains(t, r.err, "troupe: "+path)
			require.Contains(t, r.err, c.says)
			require.Empty(t, r.out)
			require.Zero(t, o.started, "nothing was started")
		})
	}
}

func TestInferNamesWhatIsMissing(t *testing.T) {
	good := dataFile(t, "[1]")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no model":         {[]string{"--datafile", good}, 2, "no model given: say which with -n ID"},
		"no data":          {[]string{"-n", "01job"}, 2, "no data given: say what to ask with --datafile FILE"},
		"an argument":      {[]string{"-n", "01job", good}, 2, "see troupe infer --help"},
		"no file":          {[]string{"-n", "01job", "--datafile", "/nope/data.json"}, 3, "/nope/data.json: no such file"},
		"a folder":         {[]string{"-n", "01job", "--datafile", "/"}, 2, "read /: "},
		"an unknown model": {[]string{"-n", "01nope", "--datafile", good}, 3, "no model 01nope"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t).run(succeeded(), append([]string{"infer"}, c.args...)...)
			require.Equal(t, c.code, r.code, r.err)
			require.Contains(t, r.err, c.says)
			require.Empty(t, r.out)
		})
	}
}

// What the function raised is shown with its trace.
func TestInferShowsTheUsersError(t *testing.T) {
	raised := fault.New("fake.infer", fault.UserCode, "ValueError: want 64 values, not 3")
	raised.Trace = "  File \"main.py\", line 7, in infer"
	o := &oracle{fakeCompany: succeeded(), err: raised}
	r := o.run(newWorld(t), "infer", "-n", "01job", "--datafile", dataFile(t, "[1]"))
	require.Equal(t, 7, r.code)
	require.Equal(t, "troupe: ValueError: want 64 values, not 3\n  File \"main.py\", line 7, in infer\n", r.err)
	require.Equal(t, 1, o.closed)
}

func TestInferEndsWithASignal(t *testing.T) {
	w := newWorld(t)
	w.signals <- syscall.SIGTERM
	o := &oracle{fakeCompany: succeeded(), until: true}
	r := o.run(w, "infer", "-n", "01job", "--datafile", dataFile(t, "[1]"))
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "troupe: stopped by SIGTERM\n")
	require.Equal(t, 1, o.closed)
}

func TestInferSaysThatTheNodeDidNotEndWell(t *testing.T) {
	o := &oracle{fakeCompany: succeeded(), answer: "[1]"}
	o.closeErr = errors.New("something is left")
	r := o.run(newWorld(t), "infer", "-n", "01job", "--datafile", dataFile(t, "[1]"))
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "something is left")
}

func FuzzParseSamples(f *testing.F) {
	for _, seed := range []string{"[1]", `{"data":[[1,2]]}`, "[", "", "{}", "nul", "[1]]", "\ufeff[0]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		samples, err := parseSamples(b)
		if err != nil {
			return
		}
		var array []json.RawMessage
		require.NoError(t, json.Unmarshal(samples, &array))
		require.NotEmpty(t, array)
	})
}
