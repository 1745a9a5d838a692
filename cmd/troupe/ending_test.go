package main

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// Every kind of error has its exit code: a new kind fails here until it has.
func TestExitCodeOfEveryKind(t *testing.T) {
	want := map[fault.Kind]int{
		fault.Unknown: 1, fault.Invalid: 2, fault.NotFound: 3, fault.Conflict: 4,
		fault.Unavailable: 5, fault.Corrupt: 6, fault.UserCode: 7, fault.Rejected: 7,
	}
	for _, kind := range fault.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			code, known := want[kind]
			require.True(t, known)
			c := succeeded()
			c.startErr = fault.New("fake.start", kind, "it is %s", kind)
			r := newWorld(t).run(c, "run", "mlp", "-d", "digits")
			require.Equal(t, code, r.code)
			require.Equal(t, "troupe: it is "+kind.String()+"\n", r.err)
			require.Empty(t, r.out)
			require.Equal(t, 1, c.closed, "the company is closed all the same")
		})
	}
	require.Zero(t, exitCode(nil))
	require.Equal(t, 1, exitCode(errors.New("no kind")))
}

func TestJobThatFailed(t *testing.T) {
	c := succeeded()
	c.result = &messages.JobResult{
		Phase:   messages.Phase_PHASE_FAILED,
		Failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_NOT_FOUND, Text: "the data set is gone", Trace: "at line 7"},
	}
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits", "-o", "json")
	require.Equal(t, 7, r.code, "whatever the reason")
	require.Contains(t, r.out, `"state":"FAILED"`)
	require.Contains(t, r.out, `"epochs":[],"accuracy":null,"validation_loss":null`)
	require.Contains(t, r.out, `"model":null,"error":"the data set is gone\nat line 7"`)
	require.True(t, strings.HasSuffix(r.err, "troupe: job 01job failed: the data set is gone\nat line 7\n"), r.err)
}

// A job that another process has taken over has not ended, whatever else this
// one does.
func TestJobThatWasTakenOver(t *testing.T) {
	c := succeeded()
	c.watchErr = fault.New("fake.watch", fault.Conflict, "job 01job was taken over by pid 7 (node a) as incarnation 3")
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits", "-o", "json")
	require.Equal(t, 4, r.code)
	require.Empty(t, r.out)
	require.NotContains(t, r.err, "FAILED")
	require.True(t, strings.HasSuffix(r.err, "\ntroupe: job 01job was taken over by pid 7 (node a) as incarnation 3; this process stops\n"), r.err)
	require.Equal(t, 1, c.closed)
}

func TestNumbersThatJSONDoesNotHaveAreNull(t *testing.T) {
	c := succeeded()
	c.result.Epochs[0].TrainLoss = math.NaN()
	inf := math.Inf(1)
	c.result.ValidationLoss = &inf
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits", "-o", "json")
	require.Zero(t, r.code)
	require.Contains(t, r.out, `{"epoch":1,"train_loss":null,`)
	require.Contains(t, r.out, `"validation_loss":null,"retries":3`)
}

func TestFirstSignalStopsTheJob(t *testing.T) {
	for sig, name := range map[os.Signal]string{os.Interrupt: "Ctrl-C", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t), succeeded()
			c.endless = true
			c.watched = func() { w.signals <- sig }
			r := w.run(c, "run", "mlp", "-d", "digits", "-o", "json")
			require.Equal(t, 8, r.code)
			require.Contains(t, r.out, `"state":"STOPPED"`)
			require.Contains(t, r.out, `"error":"stopped by `+name+`"`)
			require.Contains(t, r.err, "troupe: stopping after "+name+"; once more ends at once\n")
			require.Contains(t, r.err, "troupe: job 01job stopped: stopped by "+name+"\n")
			require.Equal(t, 1, c.closed)
		})
	}
}

func TestSignalBeforeTheJobBegan(t *testing.T) {
	w, c := newWorld(t), succeeded()
	started := make(chan struct{})
	w.Err = writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "stopping after") {
			close(started)
		}
		return w.err.Write(b)
	})
	w.signals <- os.Interrupt
	slow := &slowStart{fakeCompany: c, until: started}
	p := &program{env: w.env, start: slow.start}
	require.Equal(t, 8, p.Run([]string{"run", "mlp", "-d", "digits"}))
	require.Contains(t, w.err.String(), "troupe: stopped before the job began\n")
	require.Empty(t, w.out.String())
	require.Equal(t, 1, c.closed)
}

func TestSecondSignalEndsTheProcess(t *testing.T) {
	w, c := newWorld(t), succeeded()
	c.endless = true
	c.deaf = true
	c.watched = func() { w.signals <- os.Interrupt; w.signals <- syscall.SIGTERM }
	code := 0
	w.Exit = func(n int) {
		code = n
		c.stopped <- "the end of the process, as far as a test can have it"
	}
	w.run(c, "run", "mlp", "-d", "digits")
	require.Equal(t, 143, code)
}

func TestReaderThatLeftIsNoError(t *testing.T) {
	w := newWorld(t)
	w.Out = writerFunc(func([]byte) (int, error) { return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE} })
	for _, args := range [][]string{{"run", "mlp", "-d", "digits"}, {"run", "mlp", "-d", "digits", "-o", "json"}, {"version"}, {"help"}} {
		w.err.Reset()
		r := w.run(succeeded(), args...)
		require.Zero(t, r.code, args)
		require.NotContains(t, r.err, "pipe", args)
	}
}

func TestResultThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.Out = writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
	r := w.run(succeeded(), "run", "mlp", "-d", "digits")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "troupe: cannot write to standard output: no space left on device\n")
}

func TestJobOutlivesItsScreen(t *testing.T) {
	w := newWorld(t)
	w.Err = writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	r := w.run(succeeded(), "run", "mlp", "-d", "digits", "-o", "json")
	require.Zero(t, r.code)
	require.Contains(t, r.out, `"state":"SUCCEEDED"`)
}

func TestCloseThatFailsIsReported(t *testing.T) {
	c := succeeded()
	c.closeErr = fault.New("fake.close", fault.Unavailable, "the disk is gone")
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.out, "SUCCEEDED")
	require.Contains(t, r.err, "troupe: the disk is gone\n")
}

func TestPanicIsABug(t *testing.T) {
	c := succeeded()
	c.watched = func() { panic("oh") }
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "troupe: this is a bug, please report it: oh\n")
}

// The summary of a job that did not succeed says where to look, and what next.
func TestTheSummarySaysWhatNext(t *testing.T) {
	for phase, says := range map[messages.Phase]string{
		messages.Phase_PHASE_SUCCEEDED: "  more      -o json prints each epoch, -v says what happens\n",
		messages.Phase_PHASE_FAILED:    "  log       file:///store/jobs/01job/logs\n  more      -v says what happens\n",
		messages.Phase_PHASE_STOPPED:   "  more      troupe run --resume 01job goes on\n",
	} {
		c := &fakeCompany{result: &messages.JobResult{Phase: phase}, logs: "file:///store/jobs/01job/logs"}
		r := newWorld(t).run(c, "run", "mlp", "-d", "digits")
		require.Equal(t, "job 01job "+jobjson.StateName(phase)+" after 0 epochs in 0 ms\n"+says, r.out)
	}
}
