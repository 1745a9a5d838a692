package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	serverClients = 50
	serverJobs    = 200
)

// BenchmarkServer submits 200 jobs at once from 50 clients to a real server of
// two slots, and looks at GET /tasks while they wait and run. It prints how long
// that took, at the median and for the slowest one of a hundred, what memory
// the server has before, in the middle and afterwards, and jobs a second.
func BenchmarkServer(b *testing.B) {
	for range b.N {
		s := startServer(b)
		before := s.resident(b)
		began := time.Now()
		ids := s.submitAll(b)
		var took []time.Duration
		var middle int64
		for {
			asked := time.Now()
			var running []json.RawMessage
			s.get(b, "/tasks", &running)
			took = append(took, time.Since(asked))
			if len(running) < serverJobs/2 && middle == 0 {
				middle = s.resident(b)
			}
			if len(running) == 0 {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
		all := time.Since(began)
		s.verify(b, ids)
		slices.Sort(took)
		b.ReportMetric(ms(took[len(took)/2]), "tasks-p50-ms")
		b.ReportMetric(ms(took[len(took)*99/100]), "tasks-p99-ms")
		b.ReportMetric(serverJobs/all.Seconds(), "jobs/s")
		b.ReportMetric(float64(before)/(1<<20), "MiB-before")
		b.ReportMetric(float64(middle)/(1<<20), "MiB-middle")
		b.ReportMetric(float64(s.resident(b))/(1<<20), "MiB-after")
		s.stop(b)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// server is a real `troupe up`.
type server struct {
	cmd *exec.Cmd
	url string
}

func startServer(b *testing.B) *server {
	dir := b.TempDir()
	binary := filepath.Join(dir, "troupe")
	build := exec.Command("go", "build", "-o", binary, "github.com/troupe-ml/troupe/cmd/troupe")
	build.Stderr = os.Stderr
	require.NoError(b, build.Run())
	cmd := exec.Command(binary, "up", "--slots", "2", "--listen", "127.0.0.1:0", "--store", "file://"+filepath.Join(dir, "store"))
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	said, err := cmd.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
			address, _, _ := strings.Cut(rest, ",")
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return &server{cmd: cmd, url: "http://" + address}
		}
	}
	b.Fatal("the server does not say where it is")
	return nil
}

// submitAll submits the jobs from all clients at once and returns their ids.
func (s *server) submitAll(b *testing.B) []string {
	body := []byte(`{"function_name":"softmax","dataset":"digits","epochs":1,"batch_size":64,"lr":0.1,"options":{"default_parallelism":1,"static_parallelism":true,"k":-1}}`)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	var next atomic.Int64
	for range serverClients {
		wg.Go(func() {
			for next.Add(1) <= serverJobs {
				response, err := http.Post(s.url+"/train", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				text, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					b.Errorf("%d %s", response.StatusCode, text)
				}
				mu.Lock()
				ids = append(ids, strings.TrimSpace(string(text)))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(b, ids, serverJobs)
	return ids
}

// verify looks whether every job has ended well, once.
func (s *server) verify(b *testing.B, ids []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		require.False(b, seen[id])
		seen[id] = true
		var task struct{ Phase string }
		s.get(b, "/tasks/"+id, &task)
		require.Equal(b, "SUCCEEDED", task.Phase, id)
	}
}

func (s *server) get(b *testing.B, path string, into any) {
	response, err := http.Get(s.url + path)
	require.NoError(b, err)
	defer response.Body.Close()
	require.NoError(b, json.NewDecoder(response.Body).Decode(into))
}

// resident is the server's memory in bytes.
func (s *server) resident(b *testing.B) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(b, err)
	return kib << 10
}

func (s *server) stop(b *testing.B) {
	require.NoError(b, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(b, s.cmd.Wait())
}
