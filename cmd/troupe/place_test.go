package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
	"github.com/troupe-ml/troupe/tensor"
)

// in is a world with that environment, and a configuration file with that text.
func in(t *testing.T, file string, env map[string]string) (*world, string) {
	w, dir := newWorld(t), t.TempDir()
	path := filepath.Join(dir, "troupe", "config.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	w.Getenv = func(k string) string {
		if k == "XDG_CONFIG_HOME" {
			return dir
		}
		return env[k]
	}
	return w, path
}

func TestServerVerbsWithoutAServer(t *testing.T) {
	for _, args := range [][]string{
		{"train", "-f", "mlp", "-d", "digits"},
		{"task", "list"},
		{"task", "show", "--id", "x"},
		{"task", "stop", "--id", "x"},
		{"task", "resume", "--id", "x"},
		{"task", "prune", "--yes"},
		{"logs", "--id", "x"},
		{"stacks", "--id", "x"},
		{"events", "-f"},
		{"cluster", "members"},
		{"cluster", "token", "create", "--name", "x"},
		{"cluster", "token", "revoke", "--name", "x"},
	} {
		r := newWorld(t).run(succeeded(), args...) // where TROUPE_SERVER says none
		require.Equal(t, 5, r.code, "%q: %s", args, r.err)
		require.Contains(t, r.err, "this needs a server, and none is to be used (--server none, TROUPE_SERVER or the configuration): name one with --server URL")
		require.Empty(t, r.out)
	}
}

// A server that was named and is gone is not replaced by the store.
func TestANamedServerThatIsGone(t *testing.T) {
	r := newWorld(t).run(succeeded(), "model", "list", "--server", "127.0.0.1:1")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "reach the server at http://127.0.0.1:1")
}

func TestRemoteRefusals(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("a b\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"train without function":     {[]string{"train", "-d", "digits"}, 2, "no function given: say which with -f"},
		"train without data":         {[]string{"train", "-f", "mlp"}, 2, "dataset"},
		"train with an argument":     {[]string{"train", "mlp"}, 2, "see troupe train --help"},
		"train a file":               {[]string{"train", "-f", "./Le Net.py", "-d", "digits"}, 2, "troupe function create --name le-net --code ./Le Net.py"},
		"train on a file":            {[]string{"train", "-f", "mlp", "-d", "x.csv.gz"}, 2, "troupe dataset create --name x --from x.csv.gz"},
		"train from a file":          {[]string{"train", "-f", "mlp", "-d", "digits", "--init", "m.safetensors"}, 2, "takes the ids of its models"},
		"train with --label":         {[]string{"train", "-f", "mlp", "-d", "digits", "--label", "y"}, 2, "unknown flag: --label"},
		"no id":                      {[]string{"task", "stop"}, 2, "no job given: say which with --id"},
		"events of nothing":          {[]string{"events"}, 2, "say which with --id, or follow all with -f"},
		"short JSON":                 {[]string{"task", "list", "--short", "-o", "json"}, 2, "give one of them"},
		"a function below 0":         {[]string{"logs", "--id", "x", "--function", "-1"}, 2, "give a whole number from 0"},
		"follow as JSON":             {[]string{"task", "show", "--id", "x", "--follow", "-o", "json"}, 2, "events --id x -f -o json"},
		"two places":                 {[]string{"model", "list", "--server", "127.0.0.1:1", "--store", "mem://"}, 2, "say two places"},
		"a bad URL":                  {[]string{"task", "list", "--server", "ftp://x"}, 2, `server "ftp://x"`},
		"TLS without a token":        {[]string{"task", "list", "--server", "https://127.0.0.1:1"}, 2, "wants a token"},
		"a token in the clear":       {[]string{"task", "list", "--server", "http://127.0.0.1:1", "--token-file", token}, 2, "holds no token"},
		"no token file":              {[]string{"task", "list", "--server", "https://127.0.0.1:1", "--token-file", dir + "/none"}, 3, "there is no such file"},
		"function without name":      {[]string{"function", "create", "--code", "x.py"}, 2, "say which with --name"},
		"function without code":      {[]string{"function", "create", "--name", "x"}, 2, "no code given"},
		"function of two sources":    {[]string{"function", "create", "--name", "x", "--code", "x.py", "--url", "http://a"}, 2, "give one of them"},
		"function of no endpoint":    {[]string{"function", "create", "--name", "x", "--url", "a:80", "--store", "mem://"}, 2, `"a:80" is neither http nor https`},
		"serve nothing":              {[]string{"serve", "--port", "0"}, 2, "no code given"},
		"serve two things":           {[]string{"serve", "--port", "0", "--code", "x.py", "--function", "mlp"}, 2, "give one of them"},
		"serve nowhere":              {[]string{"serve", "--function", "mlp"}, 2, "no port given"},
		"serve at no port":           {[]string{"serve", "--function", "mlp", "--port", "65536"}, 2, "give a whole number from 0 to 65535"},
		"serve without patience":     {[]string{"serve", "--function", "mlp", "--port", "0", "--grace", "-1s"}, 2, "give a duration from 0"},
		"serve what is not there":    {[]string{"serve", "--code", "none.py", "--port", "0"}, 3, "none.py"},
		"serve no built-in":          {[]string{"serve", "--function", "lenet", "--port", "0"}, 3, `no built-in function "lenet"`},
		"serve for no URL":           {[]string{"serve", "--function", "mlp", "--port", "0", "--job-url", "a:80"}, 2, `"a:80" is neither http nor https`},
		"serve at a foreign host":    {[]string{"serve", "--function", "mlp", "--port", "0", "--host", "192.0.2.1"}, 2, "listen on 192.0.2.1:0"},
		"up at no job URL":           {[]string{"up", "--store", "mem://", "--job-url", "a:80"}, 2, `"a:80" is neither http nor https`},
		"function of a missing file": {[]string{"function", "create", "--name", "x", "--code", "none.py", "--store", "mem://"}, 3, "none.py"},
		"a built-in function":        {[]string{"function", "delete", "--name", "mlp", "--store", "mem://"}, 4, "built in"},
		"a built-in data set":        {[]string{"dataset", "delete", "--name", "digits", "--store", "mem://"}, 4, "built in"},
		"data set without samples":   {[]string{"dataset", "create", "--name", "x"}, 2, "no samples given"},
		"data set of both":           {[]string{"dataset", "create", "--name", "x", "--from", "a", "--traindata", "b.npy"}, 2, "--from says where all samples are"},
		"data set without labels":    {[]string{"dataset", "create", "--name", "x", "--traindata", "b.npy"}, 2, "give both --traindata and --trainlabels"},
		"test without labels":        {[]string{"dataset", "create", "--name", "x", "--traindata", "b.npy", "--trainlabels", "c.npy", "--testdata", "d.npy"}, 2, "give both --testdata and --testlabels"},
		"data of another format":     {[]string{"dataset", "create", "--name", "x", "--traindata", "b.pkl", "--trainlabels", "c.npy"}, 2, "give a .npy file"},
		"plot to nowhere":            {[]string{"history", "plot", "--id", "x"}, 2, "say where to draw with --out loss.svg"},
		"plot as text":               {[]string{"history", "plot", "--id", "x", "--out", "a.txt"}, 2, "ends in .svg or .png"},
		"no history":                 {[]string{"history", "get", "--id", "x", "--store", "mem://"}, 3, "no job x"},
		"token without name":         {[]string{"cluster", "token", "create"}, 2, "no name given"},
		"token of another role":      {[]string{"cluster", "token", "create", "--name", "x", "--role", "god"}, 2, "give one of read, submit, admin"},
		"gc of what is to come":      {[]string{"store", "gc", "--older", "-1d"}, 2, "give an age such as 36h or 30d"},
		"an unknown verb":            {[]string{"task", "lst"}, 2, `there is no verb "lst": did you mean "list"?`},
		"a verb of another group":    {[]string{"history", "stop"}, 2, "see troupe history --help"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Getenv = func(string) string { return "" }
			r := w.run(succeeded(), c.args...)
			require.Equal(t, c.code, r.code, r.err)
			require.Contains(t, r.err, c.says)
			require.Empty(t, r.out)
		})
	}
}

// Without a server the catalogs of the store are looked after.
func TestCatalogsOfAStore(t *testing.T) {
	url, _ := storeWith(t, "01a")
	on := func(args ...string) run { return newWorld(t).run(succeeded(), append(args, "--store", url)...) }
	require.Equal(t, run{0, "NAME      RUNTIME   BYTES   VERSION\nmlp       native    -       -\nsoftmax   native    -       -\n", ""}, on("function", "list"))
	dir := t.TempDir()
	program := filepath.Join(dir, "net.py")
	require.NoError(t, os.WriteFile(program, []byte("def main(): pass\n"), 0o600))
	require.Equal(t, run{0, "", "function net created\n"}, on("function", "create", "--name", "net", "--code", program))
	require.Equal(t, 4, on("function", "create", "--name", "net", "--code", program).code)
	require.Equal(t, run{0, "", "function net updated\n"}, on("function", "update", "--name", "net", "--code", program))
	require.Equal(t, 3, on("function", "update", "--name", "other", "--code", program).code)
	require.Equal(t, run{0, "", "function net updated\n"}, on("function", "update", "--name", "net", "--url", "http://b/", "--url", "http://a/?x=1"))
	require.Regexp(t, `^NAME +RUNTIME +BYTES +VERSION\nnet +remote +- +[0-9a-f]{64}\n\nURL\nhttp://a/\?x=1\nhttp://b/\n$`, on("function", "show", "--name", "net").out)
	require.Contains(t, on("function", "show", "--name", "net", "-o", "json").out, `"urls":["http://a/?x=1","http://b/"]`)
	require.Equal(t, run{0, "", "function net deleted\n"}, on("function", "delete", "--name", "net"))

	table := filepath.Join(dir, "t.csv")
	require.NoError(t, os.WriteFile(table, []byte("a,class\n1,0\n2,1\n3,0\n4,1\n5,0\n"), 0o600))
	require.Equal(t, run{0, "", "data set t created: 4 samples to train on, 1 to test\n"}, on("dataset", "create", "--name", "t", "--from", table))
	require.Contains(t, on("dataset", "list").out, "t        4       1      ")
	require.Equal(t, 0, on("dataset", "create", "--name", "t", "--from", table).code, "the same again")
	require.NoError(t, os.WriteFile(table, []byte("a,class\n9,0\n2,1\n3,0\n4,1\n5,0\n"), 0o600))
	require.Equal(t, run{4, "", `troupe: data set "t" is there, with 4 training and 1 test samples, and these are others: delete it first (troupe dataset delete --name t), or choose another name` + "\n"},
		on("dataset", "create", "--name", "t", "--from", table))
	require.Equal(t, run{0, "", "data set t deleted\n"}, on("dataset", "delete", "--name", "t"))
	array := func(name string, kind tensor.NpyType, values []byte, shape ...int64) string {
		var b bytes.Buffer
		require.NoError(t, tensor.WriteNpyHeader(&b, kind, shape))
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, append(b.Bytes(), values...), 0o600))
		return path
	}
	x, y := array("anything.npy", tensor.NpyUint8, []byte{1, 2, 3, 4, 5, 6}, 3, 2), array("labels.npy", tensor.NpyInt8, []byte{0, 1, 0}, 3)
	r := on("dataset", "create", "--name", "four", "--traindata", x, "--trainlabels", y, "--testdata", x, "--testlabels", y, "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, `{"name":"four","train_set_size":3,"test_set_size":3,`)
	require.Equal(t, 3, on("dataset", "create", "--name", "none", "--traindata", x, "--trainlabels", dir+"/none.npy").code)
	few := array("few.npy", tensor.NpyInt8, []byte{0, 1}, 2)
	require.Equal(t, run{2, "", `troupe: data set "none" of x-train ` + x + ", y-train " + few + ": x_train has 3 samples, y_train has 2 labels\n"},
		on("dataset", "create", "--name", "none", "--traindata", x, "--trainlabels", few))
	require.FileExists(t, x, "what was only linked stays")
	require.Equal(t, run{0, "", "no jobs at " + url + "\n"}, on("history", "list"))
	require.Equal(t, 0, on("store", "gc", "--older", "0s").code)
	clean := on("store", "gc", "--older", "0s", "--dry-run")
	require.Equal(t, 0, clean.code)
	require.Regexp(t, `^file://\S+: nothing would be removed\n$`, clean.err)
	require.Empty(t, clean.out)
}

// What a job of run left that lost its process can be forgotten, and what one
// uses stays.
func TestJobsOfAStore(t *testing.T) {
	dir := t.TempDir()
	bucket, err := store.NewFile(dir)
	require.NoError(t, err)
	jobs := actors.NewJobs(job.New(bucket), job.Owner{Node: "n", Boot: "b", PID: 1}, "run", func() int64 { return 1_700_000_000_000 })
	owned, _, err := jobs.Own(t.Context(), "j1", &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", DatasetName: "t"}, job.Sighting{})
	require.NoError(t, err)
	on := func(args ...string) run {
		return newWorld(t).run(succeeded(), append(args, "--store", "file://"+dir)...)
	}
	r := on("history", "list")
	require.Contains(t, r.out, "j1   mlp        digits    QUEUED")
	require.Equal(t, 4, on("dataset", "delete", "--name", "t").code, "the job is to go on with it")
	r = on("history", "delete", "--id", "j1")
	require.Equal(t, 4, r.code, "it runs")
	require.Contains(t, r.err, "job j1 has not ended")
	owned.Release()
	require.Equal(t, run{0, "", "no jobs to forget at file://" + dir + "\n"}, on("history", "prune", "--yes"))
	require.Equal(t, run{0, "", "job j1 forgotten\n"}, on("history", "delete", "--id", "j1"))
	require.Equal(t, 3, on("history", "delete", "--id", "j1").code)
	require.NoError(t, bucket.Close())
}

func TestSettingsReachTheirFlags(t *testing.T) {
	w, _ := in(t, "slots: 5\nthreads: 2\nstore: mem://\n", map[string]string{"TROUPE_THREADS": "3", "TROUPE_SERVER": "none"})
	c := succeeded()
	require.Zero(t, w.run(c, "run", "mlp", "-d", "digits").code, w.err.String())
	require.Equal(t, 5, c.node.Slots, "of the file")
	require.Equal(t, 3, c.node.Threads, "of the environment")
	require.Equal(t, "mem://", c.node.Store)
	w, _ = in(t, "slots: 5\n", map[string]string{"TROUPE_SLOTS": "6", "HOME": "/home/ann"})
	require.Zero(t, w.run(c, "run", "mlp", "-d", "digits", "--slots", "7").code)
	require.Equal(t, 7, c.node.Slots, "as typed")

	w, path := in(t, "slots: many\n", nil)
	r := w.run(c, "run", "mlp", "-d", "digits")
	require.Equal(t, run{2, "", "troupe: " + path + `:1: slots "many": give a whole number from 1 to 65536` + "\n"}, r)
	w, path = in(t, "slotz: 1\n", nil)
	r = w.run(c, "model", "list")
	require.Equal(t, run{2, "", "troupe: " + path + `:1: there is no setting "slotz": did you mean "slots"?` + "\n"}, r)
	w, _ = in(t, "slotz: 1\n", nil)
	require.Zero(t, w.run(c, "version").code, "what needs no settings does without")
}

func TestConfigShow(t *testing.T) {
	w, path := in(t, "server: http://127.0.0.1:9\ngpus: none\n", map[string]string{"TROUPE_SLOTS": "4", "TROUPE_TOKEN": "hush", "HOME": "/home/ann"})
	r := w.run(succeeded(), "config", "show", "--listen", "127.0.0.1:8781")
	require.Zero(t, r.code, r.err)
	require.Equal(t, "file: "+path+"\n", r.err)
	require.Regexp(t, `(?m)^server +http://127.0.0.1:9 +`+path+`:1$`, r.out)
	require.Regexp(t, `(?m)^gpus +none +`+path+`:2$`, r.out)
	require.Regexp(t, `(?m)^slots +4 +TROUPE_SLOTS$`, r.out)
	require.Regexp(t, `(?m)^listen +127.0.0.1:8781 +--listen$`, r.out)
	require.Regexp(t, `(?m)^store +file:///home/ann/.local/share/troupe +default$`, r.out)
	require.Regexp(t, `(?m)^threads +cores/slots +default$`, r.out)
	require.Regexp(t, `(?m)^token +\(secret\) +TROUPE_TOKEN$`, r.out)
	require.NotContains(t, r.out, "hush")
	w, _ = in(t, "", map[string]string{"TROUPE_POLICY": "luck"})
	require.Equal(t, run{2, "", `troupe: TROUPE_POLICY: policy "luck": give one of static, throughput` + "\n"}, w.run(succeeded(), "config", "show"))
	w, _ = in(t, "", nil)
	require.Regexp(t, `^\[\{"key":"server","value":null,"from":"default: .*\}\]\n$`, w.run(succeeded(), "config", "show", "-o", "json").out)
}
