package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// firstJob is what apitest calls the first job of a company.
const firstJob = "00000000000000000000000001"

// far is a server with a company that does what a test says.
type far struct {
	*apitest.Company
	url string
}

func serve(t *testing.T) *far {
	t.Helper()
	c := config.DefaultAPI()
	c.Listen = "127.0.0.1:0"
	f := &far{Company: apitest.New()}
	server, err := api.Start(c, api.Deps{Company: f.Company, Log: zap.NewNop(), Version: "test", Spool: filepath.Join(t.TempDir(), "spool")})
	require.NoError(t, err)
	t.Cleanup(func() {
		stopped, stop := context.WithCancel(context.Background())
		stop()
		require.NoError(t, server.Close(stopped))
	})
	f.url = server.URL()
	return f
}

// run runs a command line against the server.
func (f *far) run(t *testing.T, args ...string) run {
	return f.runIn(newWorld(t), args...)
}

func (f *far) runIn(w *world, args ...string) run {
	return w.run(succeeded(), append(args, "--server", f.url)...)
}

// job adds a job that has done what succeeded does, and has ended like that.
func (f *far) job(id string, phase messages.Phase) {
	c := succeeded()
	t := &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", Epochs: 2, Options: &messages.TrainOptions{}, TrainSamples: 1437, TestSamples: 360}
	v := &messages.JobView{Id: id, Task: t, Origin: "server", SubmittedMs: 1_700_000_000_000, Phase: messages.Phase_PHASE_RUNNING, Epoch: 2, Round: 4, Parallelism: 2, Incarnation: 1, Loss: proto.Float64(0.4)}
	if phase != messages.Phase_PHASE_RUNNING {
		v.Phase, v.Result = phase, proto.CloneOf(c.result)
		v.Result.Phase, v.Epochs = phase, v.Result.GetEpochs()
	}
	f.Add(v)
	for _, e := range c.events {
		f.Emit(id, proto.CloneOf(e))
	}
}

func (f *far) end(id string, phase messages.Phase, why string) {
	result := proto.CloneOf(succeeded().result)
	result.Phase = phase
	if why != "" {
		result.Failure = &messages.Failure{Text: why}
	}
	f.Emit(id, &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: result}}})
}

func TestTrainPrintsTheIDAndNothingElse(t *testing.T) {
	f := serve(t)
	r := f.run(t, "train", "-f", "mlp", "-d", "digits", "-e", "7", "-p", "3", "--chaos", "kill=0.5,seed=3", "--no-backup", "--seed", "0")
	require.Equal(t, run{0, firstJob + "\n", "job " + firstJob + ": mlp on digits\n"}, r)
	v, err := f.Job(t.Context(), firstJob)
	require.NoError(t, err)
	require.EqualValues(t, 7, v.GetTask().GetEpochs())
	require.EqualValues(t, 3, v.GetTask().GetOptions().GetDefaultParallelism())
	require.InDelta(t, 0.5, v.GetTask().GetOptions().GetChaos().GetKill(), 0)
	require.False(t, v.GetTask().GetOptions().GetBackup(), "an explicit false is false")

	r = f.run(t, "train", "-f", "mlp", "-d", "old", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, `{"job_id":"00000000000000000000000002"}`+"\n", r.out)
	require.Contains(t, r.err, "troupe: warning: old: “é”\nis old\n")
}

func TestTrainFollowsToTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		phase messages.Phase
		code  int
		says  string
	}{
		"succeeded": {messages.Phase_PHASE_SUCCEEDED, 0, "more      troupe history get --id " + firstJob},
		"failed":    {messages.Phase_PHASE_FAILED, 7, "log       troupe logs --id " + firstJob},
		"stopped":   {messages.Phase_PHASE_STOPPED, 8, "more      troupe task resume --id " + firstJob + " goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t)
			w := newWorld(t)
			w.Out = writerFunc(func(b []byte) (int, error) { return w.out.Write(b) })
			w.Err = writerFunc(func(b []byte) (int, error) {
				if strings.HasPrefix(string(b), "job "+firstJob) {
					for _, e := range succeeded().events {
						f.Emit(firstJob, e)
					}
					f.end(firstJob, c.phase, "")
				}
				return w.err.Write(b)
			})
			r := f.runIn(w, "train", "-f", "mlp", "-d", "digits", "-e", "2", "--follow")
			require.Equal(t, c.code, r.code, r.err)
			require.Contains(t, r.err, "epoch 2/2  loss 0.400")
			require.Equal(t, 1, strings.Count(r.err, "the sky is low"), "a warning is given once")
			require.Contains(t, r.out, jobjson.StateName(c.phase)+" after 2 epochs")
			require.Contains(t, r.out, c.says)
		})
	}
}

// Ctrl-C ends the following and not the job.
func TestFollowingCanBeLeft(t *testing.T) {
	f := serve(t)
	f.job("j1", messages.Phase_PHASE_RUNNING)
	for name, args := range map[string][]string{
		"task show": {"task", "show", "--id", "j1", "--follow"},
		"logs":      {"logs", "--id", "j1", "-f"},
		"events":    {"events", "--id", "j1", "-f"},
		"all":       {"events", "-f"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.signals <- os.Interrupt
			r := f.runIn(w, args...)
			require.Equal(t, 130, r.code, r.err)
		})
	}
	w := newWorld(t)
	w.Err = writerFunc(func(b []byte) (int, error) {
		if strings.HasPrefix(string(b), "epoch 2/2") {
			w.signals <- os.Interrupt
		}
		return w.err.Write(b)
	})
	r := f.runIn(w, "task", "show", "--id", "j1", "--follow")
	require.Equal(t, 130, r.code)
	require.Contains(t, r.err, "no longer following: job j1 goes on; follow it again with troupe task show --id j1 --follow, stop it with troupe task stop --id j1")
	require.Empty(t, f.Calls(), "nobody has stopped it")
}

func TestTaskVerbs(t *testing.T) {
	f := serve(t)
	require.Equal(t, run{0, "", "no jobs run or wait at " + f.url + "\n"}, f.run(t, "task", "list"))
	require.Equal(t, run{0, "[]\n", ""}, f.run(t, "task", "list", "-o", "json"))
	f.job("j1", messages.Phase_PHASE_RUNNING)
	f.job("j2", messages.Phase_PHASE_SUCCEEDED)
	f.job("j3", messages.Phase_PHASE_FAILED)
	f.job("j4", messages.Phase_PHASE_STOPPED)
	r := f.run(t, "task", "list")
	require.Equal(t, `ID   FUNCTION   DATASET   PHASE     EPOCH   N   LOSS    ACCURACY   RUNNING   ETA   WAITS FOR
j1   mlp        digits    RUNNING   2/2     2   0.400   -          -         -     -
`, r.out)
	require.Equal(t, run{0, "j1\n", ""}, f.run(t, "task", "list", "--short"))
	require.Regexp(t, `^\[\{"request":\{.*"job":\{"id":"j1",.*\}\]\n$`, f.run(t, "task", "list", "-o", "json").out)
	r = f.run(t, "task", "show", "--id", "j2")
	require.Contains(t, r.out, "job j2 SUCCEEDED\n  function    mlp\n  data set    digits (1437 samples to train on, 360 to test)\n")
	require.Contains(t, r.out, "  epoch 1/2  loss 0.900  val-loss 0.500  accuracy 93.1 %")
	require.Regexp(t, `^\{"request":.*"result":\{"job_id":"j2".*\}\n$`, f.run(t, "task", "show", "--id", "j2", "-o", "json").out)
	require.Equal(t, run{0, "", "job j1: the stop is accepted\n"}, f.run(t, "task", "stop", "--id", "j1"))
	require.Equal(t, 4, f.run(t, "task", "stop", "--id", "j2").code)
	f.job("j5", messages.Phase_PHASE_RUNNING)
	waited := make(chan run)
	go func() { waited <- f.run(t, "task", "stop", "--id", "j5", "--wait") }()
	require.Eventually(t, func() bool { return len(f.Calls()) == 2 }, time.Minute, time.Millisecond)
	f.Update("j5", func(v *messages.JobView) {
		v.Phase, v.Result = messages.Phase_PHASE_STOPPED, &messages.JobResult{Phase: messages.Phase_PHASE_STOPPED}
	})
	require.Equal(t, run{0, "", "job j5: the stop is accepted\njob j5 STOPPED\n"}, <-waited)
	require.Equal(t, run{0, "", "job j4 goes on: mlp on digits\n"}, f.run(t, "task", "resume", "--id", "j4", "-p", "3"))
	require.Equal(t, 4, f.run(t, "task", "resume", "--id", "j1").code)
	require.Equal(t, []string{"stop j1: stopped by troupe task stop", "stop j5: stopped by troupe task stop", "resume j4 with 3"}, f.Calls())
	require.Equal(t, run{0, "0| main.py:1\n", ""}, f.run(t, "stacks", "--id", "j1"))
}

// Whatever is forgotten for good is asked for first.
func TestPruneAsksFirst(t *testing.T) {
	f := serve(t)
	for id, phase := range map[string]messages.Phase{
		"j1": messages.Phase_PHASE_RUNNING, "j2": messages.Phase_PHASE_SUCCEEDED, "j3": messages.Phase_PHASE_FAILED, "j4": messages.Phase_PHASE_STOPPED,
	} {
		f.job(id, phase)
	}
	r := f.run(t, "task", "prune")
	require.Equal(t, 2, r.code)
	require.Equal(t, "troupe: this would forget 2 jobs that stopped or failed, at "+f.url+". Models stay. There is no terminal to ask on: give --yes\n", r.err)
	asked := func(answer string, args ...string) run {
		w := newWorld(t)
		w.In, w.IsTerminal = strings.NewReader(answer), func(io.Writer) bool { return true }
		w.In = struct {
			io.Reader
			io.Writer
		}{strings.NewReader(answer), io.Discard} // as a terminal is
		return f.runIn(w, args...)
	}
	r = asked("no\n", "task", "prune")
	require.Equal(t, run{4, "", "Forget 2 jobs that stopped or failed, at " + f.url + "? Models stay. [y/N] troupe: nothing is done: that was no yes\n"}, r)
	require.Equal(t, 4, asked("", "history", "prune").code, "an end of input is no yes")
	require.Empty(t, f.Calls())
	r = asked("y\n", "task", "prune")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "2 jobs forgotten\n")
	require.ElementsMatch(t, []string{"forget j3", "forget j4"}, f.Calls())
	require.Equal(t, run{0, "", "1 job forgotten\n"}, f.run(t, "history", "prune", "--yes"))
	require.Equal(t, run{0, "", "no jobs to forget at " + f.url + "\n"}, f.run(t, "history", "prune", "--yes"))
}

func TestLogsAndEvents(t *testing.T) {
	f := serve(t)
	f.job("j1", messages.Phase_PHASE_RUNNING)
	f.Print("j1", 0, "hello")
	f.Print("j1", 1, "world")
	require.Equal(t, run{0, "0| hello\n1| world\n", ""}, f.run(t, "logs", "--id", "j1"))
	require.Equal(t, run{0, "1| world\n", ""}, f.run(t, "logs", "--id", "j1", "--function", "1"))
	running := f.run(t, "events", "--id", "j1")
	require.Equal(t, 0, running.code, running.err)
	require.Contains(t, running.out, "j1  round_merged     epoch 1  round 1  N=2  loss 0.900  samples 0  0 ms\n")
	f.end("j1", messages.Phase_PHASE_FAILED, "it was too dark\nTraceback")
	require.Equal(t, run{0, "0| hello\n1| world\n", ""}, f.run(t, "logs", "--id", "j1", "-f"), "it ends when the job has ended")
	r := f.run(t, "events", "--id", "j1", "-f")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, 1+strings.Count(running.out, "\n"), strings.Count(r.out, "\n"))
	require.True(t, strings.HasSuffix(r.out, "j1  ended            FAILED  it was too dark\n"), r.out)
	r = f.run(t, "events", "--id", "j1", "-o", "json")
	require.Regexp(t, `^\[\{"id":"j1:1:1","event":"queued","data":\{.*"event":"ended","data":.*\}\]\n$`, r.out)
	r = f.run(t, "events", "--id", "j1", "-f", "-o", "json")
	require.Regexp(t, `(?m)^\{"id":"j1:1:1","event":"queued","data":\{.*\}$`, r.out)
}

func TestClusterVerbs(t *testing.T) {
	f := serve(t)
	require.Regexp(t, `^NAME    ADDRESS   SLOTS   BUSY   ROLES         LABELS     VERSION   SEEN\nlocal   -         4       1      leader,host   zone=eu1   test      \d+h\d+m\d+s ago\n$`, f.run(t, "cluster", "members").out)
	r := f.run(t, "cluster", "token", "create", "--name", "ci", "--role", "read")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "this server is for this machine and has no tokens")
	require.Equal(t, 4, f.run(t, "cluster", "token", "revoke", "--name", "ci").code)
}

// What is created, listed and deleted is so on the server where there is one.
func TestCatalogsOfAServer(t *testing.T) {
	f := serve(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	program := file("net.py", "pass\n")
	require.Equal(t, run{0, "", "function net created\n"}, f.run(t, "function", "create", "--name", "net", "--code", program))
	require.Equal(t, 4, f.run(t, "function", "create", "--name", "net", "--code", program).code)
	require.Equal(t, run{0, "", "function net updated\n"}, f.run(t, "function", "update", "--name", "net", "--code", program))
	require.Equal(t, 3, f.run(t, "function", "update", "--name", "other", "--code", program).code)
	require.Contains(t, f.run(t, "function", "list").out, "net    python    5       net.py=pass")
	require.Regexp(t, `^\{"name":"net",.*\}\n$`, f.run(t, "function", "show", "--name", "net", "-o", "json").out)
	require.Equal(t, run{0, "", "function net deleted\n"}, f.run(t, "function", "delete", "--name", "net"))
	require.Equal(t, 3, f.run(t, "function", "delete", "--name", "net").code)

	x, y := file("x.npy", "xx"), file("y.npy", "y")
	r := f.run(t, "dataset", "create", "--name", "mine", "--traindata", x, "--trainlabels", y)
	require.Equal(t, run{0, "", "data set mine created: 3 samples to train on, 0 to test\n"}, r)
	r = f.run(t, "dataset", "create", "--name", "table", "--from", file("t.csv", "1,2\n"), "--label", "z", "--test-share", "0.5", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "z0.5")
	require.Contains(t, f.run(t, "dataset", "list").out, "mine     3       0      ")
	require.Equal(t, run{0, "", "data set mine deleted\n"}, f.run(t, "dataset", "delete", "--name", "mine"))
	require.Equal(t, 3, f.run(t, "dataset", "show", "--name", "mine").code)

	f.AddModel("m1", []byte("no safetensors"))
	require.Contains(t, f.run(t, "model", "list").out, "m1   mlp")
	require.Equal(t, 6, f.run(t, "model", "export", "-n", "m1", "-o", filepath.Join(dir, "m")).code)
	require.NoFileExists(t, filepath.Join(dir, "m"))
	require.Equal(t, 3, f.run(t, "model", "show", "-n", "m2").code)
	data := file("data.json", "[[1]]")
	require.Equal(t, run{0, `{"predictions":[[1]]}` + "\n", ""}, f.run(t, "infer", "-n", "m1", "--datafile", data))
	r = f.run(t, "infer", "-n", "m1", "--datafile", data, "--threads", "1")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "--threads is about this process")
	require.Equal(t, run{0, "", "model m1 deleted\n"}, f.run(t, "model", "delete", "-n", "m1"))
}

func TestHistoryOfAServer(t *testing.T) {
	f := serve(t)
	f.job("j1", messages.Phase_PHASE_RUNNING)
	f.job("j2", messages.Phase_PHASE_SUCCEEDED)
	r := f.run(t, "history", "list")
	require.Contains(t, r.out, "j2   mlp        digits    SUCCEEDED   2 ")
	require.Regexp(t, `^\[\{"id":"j1","task":\{.*"data":\{"validation_loss":\[\].*\}\]\n$`, f.run(t, "history", "list", "-o", "json").out)
	r = f.run(t, "history", "get", "--id", "j2")
	require.Equal(t, "job j2: mlp on digits, SUCCEEDED\n", r.err)
	require.Contains(t, r.out, "1       0.9000       0.5000     93.10 %    2   4        1437      0.2 s   3         1      2\n")
	require.Regexp(t, `"accuracy":\[93.1,null\]`, f.run(t, "history", "get", "--id", "j2", "-o", "json").out)
	out := filepath.Join(t.TempDir(), "loss.svg")
	require.Equal(t, run{0, "", "job j2 drawn to " + out + "\n"}, f.run(t, "history", "plot", "--id", "j2", "--out", out))
	drawn, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "mlp on digits, job j2")
	require.Equal(t, 4, f.run(t, "history", "plot", "--id", "j2", "--out", out).code, "it is there")
	require.Equal(t, 0, f.run(t, "history", "plot", "--id", "j2", "--out", out, "--force").code)
	require.Equal(t, 4, f.run(t, "history", "plot", "--id", "j1", "--out", out+".png").code, "no epoch yet")
	require.Equal(t, run{0, "", "job j2 forgotten\n"}, f.run(t, "history", "delete", "--id", "j2"))
	require.Equal(t, 4, f.run(t, "history", "delete", "--id", "j1").code)
}

// Shells complete names and ids with what the server has.
func TestCompletion(t *testing.T) {
	f := serve(t)
	f.job("j1", messages.Phase_PHASE_RUNNING)
	f.job("j2", messages.Phase_PHASE_FAILED)
	f.AddModel("m1", nil)
	for want, args := range map[string][]string{
		"mlp\tnative\n":          {"train", "-f", ""},
		"digits\t1437 samples\n": {"train", "-d", "dig"},
		"j2\tmlp on digits, FAILED\nj1\tmlp on digits, RUNNING\n": {"task", "show", "--id", ""},
		"j1\tmlp on digits, RUNNING\n":                            {"task", "stop", "--id", "j"},
		"j2\tmlp on digits, FAILED\n":                             {"task", "resume", "--id", "j"},
		"m1\tmlp on digits\n":                                     {"model", "export", "-n", ""},
	} {
		w := newWorld(t)
		w.Getenv = func(k string) string { return map[string]string{"TROUPE_SERVER": f.url}[k] }
		r := w.run(succeeded(), append([]string{"__complete"}, args...)...)
		require.Equal(t, want+":4\n", r.out, args)
	}
	w := newWorld(t)
	w.Getenv = func(k string) string { return map[string]string{"TROUPE_SERVER": "none"}[k] }
	require.Equal(t, ":1\n", w.run(succeeded(), "__complete", "task", "show", "--id", "").out, "no server, no words")
	for want, args := range map[string][]string{
		"mlp\tnative\nsoftmax\tnative\n:0\n":    {"run", "--store", "mem://", ""},
		"digits\t1437 samples\n:0\n":            {"run", "--store", "mem://", "mlp", "-d", ""},
		"last\tthe newest that run began\n:4\n": {"run", "--store", "mem://", "--resume", ""},
		":4\n":                                  {"run", "mlp", ""},
		"table\njson\n:4\n":                     {"function", "list", "-o", ""},
		"average\naverage:unweighted\nnesterov\ntrimmed-mean\nmedian\n:4\n": {"run", "--merge", ""},
	} {
		require.Equal(t, want, newWorld(t).run(succeeded(), append([]string{"__complete"}, args...)...).out, args)
	}
}
