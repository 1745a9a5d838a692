package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
)

// serve serves a company at an address, until stop.
func serve(t *testing.T, company api.Company, listen, tlsDir string) (s *api.Server, stop func()) {
	t.Helper()
	c := config.DefaultAPI()
	c.Listen, c.TLSDir = listen, tlsDir
	s, err := api.Start(c, api.Deps{Company: company, Log: zap.NewNop(), Version: "test", Spool: filepath.Join(t.TempDir(), "spool")})
	require.NoError(t, err)
	return s, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	}
}

// connect serves a fake company, and returns a client of it.
func connect(t *testing.T) (*client.Client, *apitest.Company) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	company := apitest.New()
	s, stop := serve(t, company, "127.0.0.1:0", "")
	c, err := client.New(client.Config{Server: s.URL()})
	require.NoError(t, err)
	t.Cleanup(func() {
		stop()
		c.Close()
		goleak.VerifyNone(t, before)
	})
	return c, company
}

func view(id string) *messages.JobView {
	return &messages.JobView{
		Id: id, Phase: messages.Phase_PHASE_RUNNING, Incarnation: 1, Origin: "server",
		Task: &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 1, BatchSize: 64, Lr: 0.1, Options: &messages.TrainOptions{K: 16, Backup: proto.Bool(false)}},
	}
}

func over() *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{
		Phase: messages.Phase_PHASE_SUCCEEDED, Epochs: []*messages.EpochRecord{{Epoch: 1, TrainLoss: 0.5, Parallelism: 2, DurationS: 0.25, Accuracy: proto.Float64(90)}},
	}}}}
}

func merged(round uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: 1, Round: round}}}
}

func TestJobsOverTheWire(t *testing.T) {
	c, company := connect(t)
	ctx := t.Context()
	key := client.NewKey()
	id, warnings, err := c.SubmitJob(ctx, key, &messages.TrainTask{FunctionName: "mlp", Dataset: "old", Options: &messages.TrainOptions{K: 3}})
	require.NoError(t, err)
	require.Equal(t, []string{"old: “é”\nis old"}, warnings)
	again, _, err := c.SubmitJob(ctx, key, &messages.TrainTask{FunctionName: "mlp", Dataset: "old"})
	require.NoError(t, err)
	require.Equal(t, id, again)
	_, _, err = c.SubmitJob(ctx, "", &messages.TrainTask{FunctionName: "mlp", Dataset: "none"})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, _, err = c.SubmitJob(ctx, "", &messages.TrainTask{FunctionName: "mlp"})
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	company.Add(view("r"))
	got, err := c.Job(ctx, "r")
	require.NoError(t, err)
	require.True(t, proto.Equal(view("r"), got), "%v", got)
	running, err := c.RunningJobs(ctx)
	require.NoError(t, err)
	require.Len(t, running, 2)
	require.EqualValues(t, 3, running[0].GetTask().GetOptions().GetK())
	require.NoError(t, c.ResizeJob(ctx, "r", 3))
	require.NoError(t, c.StopJob(ctx, "r", "enough & more"))
	require.Equal(t, fault.Conflict, fault.KindOf(c.ResumeStoredJob(ctx, "r", 2)))
	stacks, err := c.Stacks(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, "0| main.py:1\n", stacks)
	company.Emit("r", over())
	require.NoError(t, c.ResumeStoredJob(ctx, "r", 2))
	require.Equal(t, []string{"submit " + id, "resize r to 3", "stop r: enough & more", "resume r with 2"}, company.Calls())

	all, err := c.AllJobs(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	want, err := company.Job(ctx, "r")
	require.NoError(t, err)
	want.Epochs = want.GetResult().GetEpochs() // which the client has from the one or the other
	require.Truef(t, proto.Equal(want, all[1]), "%v\n%v", want, all[1])
	history, err := c.History(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, []uint32{2}, history.Data.Parallelism)
	n, err := c.PruneJobs(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = c.Job(ctx, "r")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.ErrorContains(t, err, `no job "r"`)
	require.Equal(t, fault.Conflict, fault.KindOf(c.DeleteJob(ctx, id)))

	nodes, err := c.Cluster(ctx)
	require.NoError(t, err)
	require.Equal(t, "local", nodes[0].Name)
	require.NoError(t, c.Ready())
	version, err := c.Version(ctx)
	require.NoError(t, err)
	require.Equal(t, "test", version)
	_, err = c.CreateToken(ctx, "a", "read")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
}

// Every kind survives the way, with its text.
func TestErrorsKeepTheirKind(t *testing.T) {
	c, company := connect(t)
	for _, kind := range fault.Kinds() {
		company.Fail(fault.New("x", kind, "it is %v", kind))
		err := c.ResumeStoredJob(t.Context(), "r", 0) // which is not repeated
		require.Equal(t, kind, fault.KindOf(err))
		require.ErrorContains(t, err, "it is "+kind.String())
	}
}

func TestCatalogsOverTheWire(t *testing.T) {
	c, company := connect(t)
	ctx := t.Context()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	f, err := c.CreateFunction(ctx, "net", api.FunctionSource{Path: write("net.py", "a")}, false)
	require.NoError(t, err)
	require.Equal(t, "net.py=a;", f.Version)
	_, err = c.CreateFunction(ctx, "net", api.FunctionSource{Path: filepath.Join(dir, "net.py")}, false)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	_, err = c.UpdateFunction(ctx, "new", api.FunctionSource{Path: filepath.Join(dir, "net.py")})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	write("code/main.py", "m")
	write("code/net/x.py", "x")
	write("code/.git/config", "no")
	write("code/__pycache__/x.pyc", "no")
	f, err = c.UpdateFunction(ctx, "net", api.FunctionSource{Path: filepath.Join(dir, "code")})
	require.NoError(t, err)
	require.Equal(t, "main.py=m;net/x.py=x;", f.Version)
	f, err = c.UpdateFunction(ctx, "net", api.FunctionSource{URLs: []string{"http://a", "https://b/f?x=1"}})
	require.NoError(t, err)
	require.Equal(t, api.Function{Name: "net", Runtime: "remote", Version: "http://a https://b/f?x=1", URLs: []string{"http://a", "https://b/f?x=1"}}, f)
	functions, err := c.Functions(ctx)
	require.NoError(t, err)
	require.Len(t, functions, 2)
	f, err = c.Function(ctx, "net")
	require.NoError(t, err)
	require.Equal(t, "net", f.Name)
	require.NoError(t, c.DeleteFunction(ctx, "net"))
	_, err = c.CreateFunction(ctx, "net", api.FunctionSource{Path: filepath.Join(dir, "nothing.py")}, true)
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	d, err := c.CreateDataset(ctx, "d", write("d.csv", "1,2"), dataset.Options{Label: "y", TestShare: 0.25})
	require.NoError(t, err)
	require.Equal(t, "d.csv=1,2;y0.25", d.Digest)
	write("data/x_train.npy", "x")
	write("data/y_train.npy", "y")
	d, err = c.CreateDataset(ctx, "e", filepath.Join(dir, "data"), dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, "x_train.npy=x;y_train.npy=y;0", d.Digest)
	d, err = c.UploadDataset(ctx, "f", []client.Part{{Field: "x-train", Path: write("a.npy", "x")}, {Field: "y-train", Path: write("b.npy", "y")}}, dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, "x-train.npy=x;y-train.npy=y;0", d.Digest)
	_, err = c.UploadDataset(ctx, "f", []client.Part{{Field: "x-trian", Path: filepath.Join(dir, "a.npy")}}, dataset.Options{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = c.CreateDataset(ctx, "f", t.TempDir(), dataset.Options{})
	require.ErrorContains(t, err, "has no files")
	list, err := c.Datasets(ctx)
	require.NoError(t, err)
	require.Len(t, list, 4)
	d, err = c.Dataset(ctx, "d")
	require.NoError(t, err)
	require.Equal(t, "d", d.Name)
	require.NoError(t, c.DeleteDataset(ctx, "d"))

	weights := bytes.Repeat([]byte("w"), 1<<20)
	company.AddModel("m", weights)
	models, err := c.Models(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, models[0].Bytes)
	file, size, err := c.OpenModel(ctx, "m")
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, size)
	got, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Equal(t, weights, got)
	predictions, err := c.Infer(ctx, "m", json.RawMessage(`[[1, 2]]`))
	require.NoError(t, err)
	require.JSONEq(t, `[[1,2]]`, string(predictions))
	_, err = c.Infer(ctx, "m", json.RawMessage(`[`))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.NoError(t, c.DeleteModel(ctx, "m"))
	_, _, err = c.OpenModel(ctx, "m")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// A large upload reaches the disk in pieces: neither side holds it.
func TestALargeDataSetIsStreamed(t *testing.T) {
	c, _ := connect(t)
	path := filepath.Join(t.TempDir(), "x.npy")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(64<<20))
	require.NoError(t, f.Close())
	d, err := c.UploadDataset(t.Context(), "large", []client.Part{{Field: "x-train", Path: path}, {Field: "y-train", Path: path}}, dataset.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 128<<20, d.TrainSetSize)
}

func TestEventsGoOnOverARestartOfTheServer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	company := apitest.New()
	company.Add(view("r"))
	s, stop := serve(t, company, "127.0.0.1:0", "")
	address := strings.TrimPrefix(s.URL(), "http://")
	c, err := client.New(client.Config{Server: address})
	require.NoError(t, err)
	defer c.Close()
	seen := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Events(t.Context(), "r", "", func(e api.Event) error {
			seen <- e.Cursor
			return nil
		})
	}()
	logs := &bytes.Buffer{}
	logged := make(chan error, 1)
	go func() { logged <- c.Log(t.Context(), "r", -1, true, logs) }()
	company.Emit("r", merged(1))
	company.Print("r", 0, "one")
	require.Equal(t, "r:1:1", <-seen)
	stop()
	company.Emit("r", merged(2))
	company.Print("r", 0, "two")
	_, stop = serve(t, company, address, "")
	require.Equal(t, "r:1:2", <-seen)
	company.Emit("r", over())
	require.Equal(t, "r:1:3", <-seen)
	require.NoError(t, <-ended)
	require.NoError(t, <-logged)
	require.Equal(t, "0| one\n0| two\n", logs.String(), "each line once")
	require.Empty(t, seen, "each event once")
	stop()
}

func TestEventsEndForAReason(t *testing.T) {
	c, company := connect(t)
	require.Equal(t, fault.NotFound, fault.KindOf(c.Events(t.Context(), "x", "", nil)))
	company.Add(view("r"))
	company.Emit("r", merged(1))
	enough := fault.New("x", fault.Rejected, "enough")
	require.ErrorIs(t, c.Events(t.Context(), "r", "", func(api.Event) error { return enough }), enough)
	ctx, cancel := context.WithCancel(t.Context())
	require.Error(t, c.Events(ctx, "r", "", func(api.Event) error { cancel(); return nil }))
	company.Forget("r", 1)
	company.Emit("r", merged(2))
	var resets int
	err := c.Events(t.Context(), "r", "", func(e api.Event) error {
		if e.Reset {
			resets++
			return nil
		}
		return enough
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, resets)
	require.Equal(t, fault.NotFound, fault.KindOf(c.Log(t.Context(), "x", -1, true, io.Discard)))
}

func TestAServerThatIsGoneIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c, err := client.New(client.Config{Server: l.Addr().String(), Patience: time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Tasks(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "troupe up")
	require.Equal(t, fault.Unavailable, fault.KindOf(c.Events(t.Context(), "r", "", nil)))
	require.Equal(t, fault.Unavailable, fault.KindOf(c.Log(t.Context(), "r", -1, true, io.Discard)))
}

func TestWhoSpeaksWithoutTLSToAServerThatHasItIsToldSo(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	at := server.Listener.Addr().String()
	c, err := client.New(client.Config{Server: "http://" + at})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Tasks(t.Context())
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "the server at http://"+at+" has TLS: say https://"+at+", and give --token-file")
}

// What may be done twice is, and nothing else.
func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"busy","code":503}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	require.NoError(t, err)
	defer c.Close()
	task := &messages.TrainTask{FunctionName: "mlp", Dataset: "digits"}
	for name, call := range map[string]struct {
		do    func() error
		tries int32
	}{
		"list":             {func() error { _, err := c.Tasks(t.Context()); return err }, 4},
		"stop":             {func() error { return c.StopJob(t.Context(), "r", "") }, 4},
		"submit":           {func() error { _, _, err := c.SubmitJob(t.Context(), "", task); return err }, 1},
		"submit under key": {func() error { _, _, err := c.SubmitJob(t.Context(), "k", task); return err }, 4},
		"resume":           {func() error { return c.ResumeStoredJob(t.Context(), "r", 0) }, 1},
		"health":           {c.Ready, 1},
	} {
		n.Store(0)
		err := call.do()
		require.Equal(t, fault.Unavailable, fault.KindOf(err), name)
		require.ErrorContains(t, err, "busy", name)
		require.Equal(t, call.tries, n.Load(), name)
	}
}

func TestWhatIsNoTroupeIsSaidSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tasks" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "<html>")
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Tasks(t.Context())
	require.ErrorContains(t, err, "is it a troupe?")
	_, err = c.Histories(t.Context())
	require.ErrorContains(t, err, "cut off or none")
}

func TestNewRefuses(t *testing.T) {
	for server, says := range map[string]string{
		"":                       "give a URL",
		"ftp://x":                "give a URL",
		"http://user@x":          "give a URL",
		"http://x/path":          "give a URL",
		"https://10.0.0.1:8780":  "wants a token",
		"10.0.0.1:8780":          "wants a token",
		"http://127.0.0.1:1?q=1": "give a URL",
		"http://[::1":            "give a URL",
	} {
		_, err := client.New(client.Config{Server: server})
		require.ErrorContains(t, err, says, server)
		require.Equal(t, fault.Invalid, fault.KindOf(err), server)
	}
	_, err := client.New(client.Config{Server: "http://10.0.0.1:8780", Token: "x"})
	require.ErrorContains(t, err, "could be read on the way")
	_, err = client.New(client.Config{Server: "https://10.0.0.1:8780", Token: "x"})
	require.ErrorContains(t, err, "what was given is no token")
	c, err := client.New(client.Config{Server: "localhost:8780/"})
	require.NoError(t, err)
	require.Equal(t, "http://localhost:8780", c.Server())
}

// A server that others can reach has TLS and wants tokens, from its first start on.
func TestTLSFromTheFirstStartOn(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "tls")
	company := apitest.New()
	s, stop := serve(t, company, "0.0.0.0:0", dir)
	defer stop()
	require.True(t, s.FirstStart())
	require.True(t, strings.HasPrefix(s.URL(), "https://127.0.0.1:"))
	with := func(token string) *client.Client {
		c, err := client.New(client.Config{Server: s.URL(), Token: token})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	tokens := map[string]string{}
	for _, role := range []string{"read", "submit", "admin"} {
		body, err := os.ReadFile(filepath.Join(dir, role+".token"))
		require.NoError(t, err)
		tokens[role] = string(body)
	}
	ctx := t.Context()
	task := &messages.TrainTask{FunctionName: "mlp", Dataset: "digits"}
	for role, may := range map[string][3]bool{"read": {true, false, false}, "submit": {true, true, false}, "admin": {true, true, true}} {
		c := with(tokens[role])
		_, err := c.Tasks(ctx)
		require.Equal(t, may[0], err == nil, "%s: %v", role, err)
		_, _, err = c.SubmitJob(ctx, "", task)
		require.Equal(t, may[1], err == nil, "%s: %v", role, err)
		_, err = c.PruneJobs(ctx)
		require.Equal(t, may[2], err == nil, "%s: %v", role, err)
		if err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, "its role is "+role)
		}
		c.Close()
	}
	admin := with(tokens["admin"])
	made, err := admin.CreateToken(ctx, "ci", "submit")
	require.NoError(t, err)
	ci := with(made)
	_, err = ci.Tasks(ctx)
	require.NoError(t, err)
	require.NoError(t, admin.RevokeToken(ctx, "ci"))
	_, err = ci.Tasks(ctx)
	require.ErrorContains(t, err, "was revoked")
	ci.Close()
	admin.Close()

	other := filepath.Join(t.TempDir(), "tls")
	impostor, stopImpostor := serve(t, company, "0.0.0.0:0", other)
	defer stopImpostor()
	c, err := client.New(client.Config{Server: impostor.URL(), Token: tokens["admin"]})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Version(ctx)
	require.ErrorContains(t, err, "not the one that the token is for")
	plain, err := client.New(client.Config{Server: strings.Replace(s.URL(), "https", "http", 1)})
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.Version(ctx)
	require.Error(t, err)
}
