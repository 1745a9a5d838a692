package api_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/metrics"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// raw sends bytes as they are, and returns what comes back until the server
// closes the connection, or answers.
func (s *server) raw(text string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(s.t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		require.NotErrorIs(s.t, err, os.ErrDeadlineExceeded)
		return ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body) // which the server may cut off
	return response.Status + " " + string(body)
}

// awaitUpload waits until an upload is being received.
func (s *server) awaitUpload() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		entries, err := os.ReadDir(s.spool)
		return err == nil && len(entries) == 1
	}, 10*time.Second, time.Millisecond)
}

func (s *server) requireEmptySpool() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		entries, err := os.ReadDir(s.spool)
		return err == nil && len(entries) == 0
	}, 10*time.Second, time.Millisecond, "nothing is left of an upload")
}

func TestBodiesAreBounded(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.MaxBody, c.MaxFunction, c.MaxDataset = 100, 200, 500 })
	response, body := s.do("POST", "/train", strings.Repeat(" ", 101))
	require.Equal(t, 413, response.StatusCode)
	require.Contains(t, body, "more than 100 bytes")
	response, _ = s.do("PUT", "/functions/f", strings.Repeat("#", 201))
	require.Equal(t, 413, response.StatusCode)
	response, _ = s.do("PUT", "/functions/f", strings.Repeat("#", 200))
	require.Equal(t, 200, response.StatusCode)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d.csv\"\r\n\r\n" + strings.Repeat("1", 500) + "\r\n--b--\r\n"
	response, _ = s.do("POST", "/dataset/d", form, "Content-Type", "multipart/form-data; boundary=b")
	require.Equal(t, 413, response.StatusCode)
	// Without a length, the bytes are counted.
	require.Contains(t, s.raw("PUT /functions/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"c9\r\n"+strings.Repeat("#", 201)+"\r\n0\r\n\r\n"), "413 ")
	s.requireEmptySpool()
}

func TestSlowClientsAreToldAndCutOff(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.Patience = 50 * time.Millisecond })
	require.Empty(t, s.raw("GET /tasks HTTP/1.1\r\nHost: local"), "half a header")
	require.Contains(t, s.raw("POST /train HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"), "408 ")
	require.Contains(t, s.raw("PUT /functions/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n#"), "408 ")
	require.Contains(t, s.raw("POST /dataset/d HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100\r\n\r\n--b\r\n"), "408 ")
	s.requireEmptySpool()
	require.Empty(t, s.company.Calls())
}

// Behind a body that nobody reads, a client that goes would not be seen.
func TestStreamsTakeNoBody(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	for _, path := range []string{"/events", "/events?job=r", "/tasks/r/logs?follow=1"} {
		response, body := s.do("GET", path, "x")
		require.Equal(t, 400, response.StatusCode, body)
	}
}

// An answer may take longer than the client's patience: it has said all it has.
func TestASlowAnswerIsNotASlowClient(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.Patience = 20 * time.Millisecond })
	s.company.Add(running("r"))
	time.AfterFunc(200*time.Millisecond, func() { s.company.Emit("r", over()) })
	response, body := s.do("GET", "/tasks/r/logs?follow=1", "")
	require.Equal(t, 200, response.StatusCode, body)
}

func TestAnUploadThatIsCutOffLeavesNothing(t *testing.T) {
	s := start(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(c, "POST /dataset/d HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"+
		"--b\r\nContent-Disposition: form-data; name=\"x-train\"; filename=\"x.npy\"\r\n\r\nhalf")
	require.NoError(t, err)
	s.awaitUpload()
	require.NoError(t, c.Close())
	s.requireEmptySpool()
	_, body := s.do("GET", "/dataset/d", "")
	require.Contains(t, body, "no data set")
}

func TestAStartRemovesWhatAnEarlierOneLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "upload-1", "code"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600))
	start(t, func(_ *config.API, d *api.Deps) { d.Spool = dir })
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestOnlySoManyUploadAtOnce(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.MaxUploads = 1 })
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PUT /functions/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n#")
	require.NoError(t, err)
	s.awaitUpload() // it has the only place
	response, body := s.do("PUT", "/functions/g", "#")
	require.Equal(t, 503, response.StatusCode, body)
}

// archive makes a tar archive of names and contents; a name that ends in / is a
// folder, one that ends in @ a link.
func archive(zipped bool, entries ...string) string {
	var b bytes.Buffer
	var to io.WriteCloser = nopCloser{&b}
	if zipped {
		to = gzip.NewWriter(&b)
	}
	w := tar.NewWriter(to)
	for i := 0; i < len(entries); i += 2 {
		h := &tar.Header{Name: entries[i], Mode: 0o777, Size: int64(len(entries[i+1])), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(h.Name, "@"):
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, entries[i+1], 0
		case strings.HasSuffix(h.Name, "/"):
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if w.WriteHeader(h) != nil {
			panic("a header that tar cannot write")
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, entries[i+1])
		}
	}
	_, _ = w.Close(), to.Close()
	return b.String()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestArchivesAreUnpackedWithinTheirFolder(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.MaxFunction = 1 << 20 })
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"a folder":             {archive(false, "main.py", "a", "net/", "", "net/x.py", "b"), 200, "main.py=a;net/x.py=b;"},
		"zipped":               {archive(true, "./main.py", "a", "net/x.py", "b"), 200, "main.py=a;net/x.py=b;"},
		"above the folder":     {archive(false, "../main.py", "a"), 400, "only names below the folder"},
		"above by a detour":    {archive(false, "net/../../main.py", "a"), 400, "only names below the folder"},
		"from the root":        {archive(false, "/etc/main.py", "a"), 400, "only names below the folder"},
		"a link":               {archive(false, "main.py@", "/etc/passwd"), 400, "neither a file nor a folder"},
		"below a file":         {archive(false, "main.py", "a", "main.py/x", "b"), 400, "below a file"},
		"twice":                {archive(false, "main.py", "a", "main.py", "b"), 400, "sent twice"},
		"cut off":              {archive(false, "main.py", strings.Repeat("a", 2000))[:1000], 400, "cut off"},
		"zipped and cut off":   {archive(true, "main.py", "a")[:20], 400, "cut off"},
		"large once unzipped":  {archive(true, "main.py", strings.Repeat("a", 2<<20)), 413, "more than"},
		"large in many pieces": {archive(true, "a.py", strings.Repeat("a", 1<<19), "b.py", strings.Repeat("a", 1<<19), "c.py", "a"), 413, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := s.do("PUT", "/functions/f", c.body, "Content-Type", "application/x-tar")
			require.Equal(t, c.status, response.StatusCode, body)
			require.Contains(t, body, c.says)
		})
	}
	many := make([]string, 0, 20_100)
	for range 10_050 {
		many = append(many, "d/", "")
	}
	response, body := s.do("PUT", "/functions/f", archive(true, many...), "Content-Type", "application/gzip")
	require.Equal(t, 400, response.StatusCode)
	require.Contains(t, body, "more than 10000 entries")
	s.requireEmptySpool()
}

// The files of a data set reach the disk, and no more of the memory than a
// buffer.
func TestFormsBecomeFiles(t *testing.T) {
	s := start(t)
	var b strings.Builder
	for _, field := range []string{"x-train", "y-train", "x-test", "y-test"} {
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + field + "\"; filename=\"any.npy\"\r\n\r\n" + field + "\r\n")
	}
	response, body := s.do("POST", "/dataset/d", b.String()+"--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
	require.Equal(t, 200, response.StatusCode, body)
	require.Contains(t, body, "x-test.npy=x-test;x-train.npy=x-train;y-test.npy=y-test;y-train.npy=y-train;")
	for from, says := range map[string]string{b.String(): "cut off", b.String() + "--b\r\n": "cut off", b.String() + b.String() + "--b--\r\n": "sent twice"} {
		response, body := s.do("POST", "/dataset/d", from, "Content-Type", "multipart/form-data; boundary=b")
		require.Equal(t, 400, response.StatusCode, body)
		require.Contains(t, body, says)
	}
}

func TestASecondServerOnAPortIsAConflict(t *testing.T) {
	s := start(t)
	c := config.DefaultAPI()
	c.Listen = strings.TrimPrefix(s.URL(), "http://")
	_, err := api.Start(c, api.Deps{Company: s.company, Log: zap.NewNop(), Spool: t.TempDir()})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "--listen")
	c.Listen = "192.0.2.1:1"
	c.TLSDir = t.TempDir()
	_, err = api.Start(c, api.Deps{Company: s.company, Log: zap.NewNop(), Spool: t.TempDir()})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	c.Listen = "nonsense"
	_, err = api.Start(c, api.Deps{Company: s.company, Log: zap.NewNop(), Spool: t.TempDir()})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestNoSecretIsLogged(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	s := start(t, func(_ *config.API, d *api.Deps) { d.Log = zap.New(core) })
	s.do("POST", "/train", `{"function_name":"mlp","dataset":"digits","options":{"env":{"KEY":"hush"}}}`, "Authorization", "Bearer hush", "Idempotency-Key", "hush")
	s.do("GET", "/tasks?token=hush", "", "Cookie", "hush")
	require.Equal(t, 2, logs.FilterMessage("request").Len())
	for _, entry := range logs.All() {
		for _, field := range entry.Context {
			require.NotContains(t, field.String, "hush")
		}
	}
}

func TestMetricsFollowJobsToTheirEnd(t *testing.T) {
	s := start(t, func(_ *config.API, d *api.Deps) { d.Metrics = metrics.New("test", metrics.Sources{}) })
	s.company.Add(running("r"))
	scrape := func() string { _, body := s.do("GET", "/metrics", ""); return body }
	require.Eventually(t, func() bool { // once it watches
		s.company.Emit("r", merged(1))
		return strings.Contains(scrape(), `troupe_job_loss{job="r"} 0.5`)
	}, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, scrape(), `troupe_http_requests_total{code="200",method="GET",route="/metrics"}`)
	s.company.Emit("r", over())
	require.Eventually(t, func() bool { return !strings.Contains(scrape(), `job="r"`) }, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, scrape(), `troupe_jobs_ended_total{state="stopped"} 1`)
}
