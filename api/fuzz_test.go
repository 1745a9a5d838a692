package api_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/config"
)

// odd makes what people and programs send by mistake or on purpose.
type odd struct{ *rand.Rand }

func (o odd) pick(from ...string) string { return from[o.IntN(len(from))] }

func (o odd) name() string {
	return o.pick("r", "e", "mlp", "digits", "..", ".", "kubeml", "admin", "", "%2e%2e", "%00", "a%2fb", "%ff", "-", "é", "日本", "'; drop", "a b", "x.py",
		"x.csv", "con", strings.Repeat("n", 300), "{id}", "..%5c..", "r%0a", "*", "~", "$(id)", "\u202e", "store.json")
}

func (o odd) path() string {
	p := o.pick("/", "/train", "/infer", "/tasks", "/history", "/functions", "/dataset", "/models", "/cluster", "/cluster/tokens", "/health", "/metrics", "/openapi.json",
		"/tasks/"+o.name(), "/tasks/"+o.name()+"/resume", "/tasks/"+o.name()+"/resize", "/tasks/"+o.name()+"/stacks", "/tasks/"+o.name()+"/logs",
		"/history/"+o.name(), "/functions/"+o.name(), "/dataset/"+o.name(), "/models/"+o.name(), "/events", "/"+o.name(), "/"+o.name()+"/"+o.name())
	if o.IntN(3) == 0 {
		p += "?" + o.pick("follow", "function", "job", "after", "label", "test_share", "file", "name", "reason", "x") + "=" + url.QueryEscape(o.text())
	}
	return p
}

func (o odd) text() string {
	return o.pick("", "1", "-1", "NaN", "1e999", "null", "r", "r:1:1", "r:1:99999999999999999999", "e:0:0", "\x00", "\xff\xfe", "é", strings.Repeat("t", 2000), "../x", "true", "0.5")
}

func (o odd) value(depth int) string {
	switch o.IntN(12) {
	case 0:
		return o.pick("NaN", "Infinity", "-Infinity", "0x10", "1e", "'a'", "undefined", "\"a")
	case 1:
		return o.pick("1e999", "-1e999", "1e-999", "99999999999999999999999999", "18446744073709551616", "-9223372036854775809", "0.1e400")
	case 2:
		return o.pick("null", "true", "false", `""`, "[]", "{}")
	case 3, 4:
		return fmt.Sprint(o.IntN(200) - 20)
	case 5:
		return fmt.Sprint(o.Float64() * 10)
	case 6, 7:
		return fmt.Sprintf("%q", o.text())
	case 8:
		return o.pick(`"mlp"`, `"digits"`, `"kill=0.1"`, `"average"`, `"1h"`, `"auto"`, `"best"`)
	case 9:
		return strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	}
	if depth > 3 {
		return "{}"
	}
	return o.object(depth + 1)
}

func (o odd) object(depth int) string {
	var parts []string
	for range o.IntN(6) {
		name := o.pick("model_type", "batch_size", "epochs", "dataset", "lr", "function_name", "options", "parallelism", "model_id", "data", "name", "role", "url",
			"k", "seed", "retries", "merge", "chaos", "args", "env", "max_time", "shuffle", "kill", "priority", "", "épochs", "__proto__")
		parts = append(parts, fmt.Sprintf("%q:%s", name, o.value(depth)))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (o odd) body() string {
	body := o.object(0)
	switch o.IntN(8) {
	case 0:
		body = `{"function_name":"mlp","dataset":"digits","options":` + o.object(1) + "}"
	case 1:
		body = body[:o.IntN(len(body)+1)]
	case 2:
		b := []byte(body)
		b[o.IntN(len(b))] = byte(o.IntN(256))
		body = string(b)
	case 3:
		body = "--b\r\nContent-Disposition: form-data; name=" + o.pick("x-train", "file", "\"file\"; filename="+o.name(), "") + "\r\n\r\n" + o.text() + "\r\n--b" + o.pick("--", "") + "\r\n"
	case 4:
		body = archive(o.IntN(2) == 0, o.pick("main.py", "../x", "/x", "a/b"), o.text())
	case 5:
		body = o.text()
	}
	return body
}

func (o odd) request() string {
	var b strings.Builder
	body := o.body()
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", o.pick("GET", "GET", "POST", "POST", "PUT", "PUT", "DELETE", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "BREW"), o.path())
	fmt.Fprintf(&b, "Host: %s\r\n", o.pick("localhost", "localhost", "localhost", "127.0.0.1:1", "evil.example"))
	b.WriteString(o.pick("", "Content-Type: application/json\r\n", "Content-Type: multipart/form-data; boundary=b\r\n", "Content-Type: multipart/form-data\r\n",
		"Content-Type: application/x-tar\r\n", "Content-Type: ;;\r\n", "Content-Type: text/x-python\r\n"))
	b.WriteString(o.pick("", "", "Idempotency-Key: "+strings.Repeat("k", o.IntN(400))+"\r\n", "Last-Event-ID: r:1:1\r\n", "Last-Event-ID: x\r\n", "If-Match: *\r\n",
		"If-None-Match: *\r\n", "Authorization: Bearer x\r\n", "Expect: 100-continue\r\n", "Origin: https://evil.example\r\n"))
	switch o.IntN(10) {
	case 0:
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
		b.WriteString(o.pick("0\r\n\r\n", "", "zz\r\n"))
	case 1: // more is said than sent
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body)+1+o.IntN(100), body)
	case 2:
		b.WriteString("\r\n")
	default:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	text := b.String()
	if o.IntN(20) == 0 {
		text = text[:o.IntN(len(text))]
	}
	return text
}

// Whatever is sent: no 500, no panic, no goroutine or file left.
func TestWhateverIsSent(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			core, logs := observer.New(zap.ErrorLevel)
			s := start(t, func(c *config.API, d *api.Deps) {
				d.Log = zap.New(core)
				c.MaxBody, c.MaxFunction, c.MaxDataset, c.Patience, c.Heartbeat = 1<<20, 1<<20, 1<<20, 2*time.Second, 10*time.Millisecond
			})
			settled(s)
			o := odd{rand.New(rand.NewPCG(seed, 1))}
			for range 1000 {
				request := o.request()
				status := s.throw(request)
				require.True(t, status == 0 || status < 500 || status == 503 || status == 505, "%d: %.2000q", status, request)
			}
			require.Empty(t, logs.All())
			s.requireEmptySpool()
			response, _ := s.do("GET", "/tasks", "")
			require.Equal(t, http.StatusOK, response.StatusCode)
		})
	}
}

// throw sends bytes, says that there are no more, and returns the status of what
// comes back; 0 if nothing does.
func (s *server) throw(request string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(s.t, err)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return 0 // it was refused before its end
	}
	_ = c.(*net.TCPConn).CloseWrite() // as a client does that was killed
	require.NoError(s.t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	from := bufio.NewReader(c)
	for {
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			require.NotErrorIs(s.t, err, os.ErrDeadlineExceeded, "the server waits for ever: %.2000q", request)
			return 0
		}
		status := response.StatusCode // the body may be a stream, whose end Close would await
		if status != http.StatusContinue {
			return status
		}
	}
}

// FuzzRequest throws bytes at a server.
func FuzzRequest(f *testing.F) {
	o := odd{rand.New(rand.NewPCG(7, 7))}
	for range 50 {
		f.Add([]byte(o.request()))
	}
	s := start(f, func(c *config.API, d *api.Deps) {
		d.Log, c.Patience, c.Heartbeat = zap.NewNop(), time.Second, 10*time.Millisecond
	})
	settled(s)
	f.Fuzz(func(t *testing.T, request []byte) {
		s := &server{Server: s.Server, company: s.company, spool: s.spool, t: t}
		status := s.throw(string(request))
		require.True(t, status < 500 || status == 503 || status == 505 || status == 501, "%d", status)
	})
}
