package endpoint_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
)

const (
	modeEnv = "TROUPE_TEST_ENDPOINT"
	portEnv = "TROUPE_TEST_PORT"
)

// TestMain lets this binary be an endpoint's process, until its standard input
// ends.
func TestMain(m *testing.M) {
	if mode := os.Getenv(modeEnv); mode != "" {
		beEndpoint(mode, os.Getenv(portEnv))
		return
	}
	os.Exit(m.Run())
}

// beEndpoint serves functions, and does to every fifth call what mode says.
func beEndpoint(mode, port string) {
	runtime, err := native.New(raises())
	check(err)
	dir, err := os.MkdirTemp("", "endpoint-")
	check(err)
	serve := func(function string) http.Handler {
		e, err := endpoint.New(endpoint.Config{Runtime: runtime, Function: named(function), Slots: 8, Dir: dir, Log: zap.NewNop()})
		check(err)
		return e
	}
	mux := http.NewServeMux()
	for _, function := range []string{"mlp", "raises", "softmax"} {
		mux.Handle("/"+function, serve(function))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = os.RemoveAll(dir)
		os.Exit(0)
	}()
	check(http.Serve(listener, behaving(mode, mux)))
}

func named(function string) func(map[string]string) (string, error) {
	return func(map[string]string) (string, error) { return function, nil }
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// behaving wraps the handler of an endpoint.
func behaving(mode string, h http.Handler) http.Handler {
	var calls atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fifth := calls.Add(1)%5 == 0
		switch {
		case mode == "slow":
			<-time.After(20 * time.Millisecond)
		case mode == "dies" && fifth: // somewhere in its run
			go func() {
				<-time.After(2 * time.Millisecond)
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}()
		case mode == "answers garbage" && fifth:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>It works!</html>")
			return
		case mode == "answers twice": // as if a proxy had repeated the call
			first := httptest.NewRecorder()
			over := make(chan bool)
			go func() {
				defer close(over)
				h.ServeHTTP(first, r.Clone(r.Context()))
			}()
			defer func() { <-over }()
		}
		h.ServeHTTP(w, r)
	})
}

// process is an endpoint in a process of its own.
type process struct {
	mode string
	url  string // of the process, without a slash at its end
	cmd  *exec.Cmd
	in   io.Closer
	gone chan struct{}
}

// start starts an endpoint's process, on a port unless that is empty.
func start(t testing.TB, mode, port string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeEnv+"="+mode, portEnv+"="+port)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	p := &process{mode: mode, url: strings.TrimSpace(line), cmd: cmd, in: in, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait()
	}()
	return p
}

// end ends the process, in order if it has not been killed.
func (p *process) end() {
	_ = p.in.Close()
	<-p.gone
}

func (p *process) port() string { return p.url[strings.LastIndex(p.url, ":")+1:] }

// raises makes a model and panics on its fifth batch.
func raises() native.Function {
	return native.Function{
		Name: "raises",
		Init: func(c *native.Call) error { _, err := c.Model.Float32("w", 1); return err },
		Open: func(*native.Call) (native.Model, error) { return panicking{}, nil },
	}
}

type panicking struct{}

func (panicking) Train(b native.Batch) (float64, error) {
	if b.Index == 2 {
		return float64(b.X[len(b.X)]), nil // out of range
	}
	return 0, nil
}

func (panicking) Validate(native.Batch) (native.Score, error) { return native.Score{}, nil }
