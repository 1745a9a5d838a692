package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// settled is a company with a running job r, an ended one e, and a model e.
func settled(s *server) {
	s.company.Add(running("r"))
	s.company.Add(finished("e"))
	s.company.AddModel("e", []byte("weights"))
	s.company.Print("r", 0, "hello")
	s.company.Print("r", 1, "world")
}

// Each row is a request, the status that it gets, and part of the answer.
func TestEveryRouteAnswers(t *testing.T) {
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d.csv\"\r\n\r\n1,2\r\n--b--\r\n"
	multipart := []string{"Content-Type", "multipart/form-data; boundary=b"}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		{"POST", "/train", `{"function_name":"mlp","dataset":"digits"}`, nil, 200, "0000000000000000000000000"},
		{"POST", "/train", `{"function_name":"mlp","dataset":"none"}`, nil, 404, `no data set \"none\"`},
		{"POST", "/infer", `{"model_id":"e","data":[[1,2]]}`, nil, 200, `{"predictions":[[1,2]]}`},
		{"POST", "/infer", `{"model_id":"x","data":[1]}`, nil, 404, `no model \"x\"`},
		{"POST", "/infer", `{"model_id":"e"}`, nil, 400, "there is no data"},
		{"POST", "/infer", `{"model_id":"../e","data":[1]}`, nil, 400, "model name"},
		{"POST", "/infer", `{"model":"e","data":[1]}`, nil, 400, `did you mean \"model_id\"`},
		{"GET", "/tasks", "", nil, 200, `"id":"r"`},
		{"GET", "/tasks/r", "", nil, 200, `"phase":"RUNNING"`},
		{"GET", "/tasks/x", "", nil, 404, `no job \"x\"`},
		{"DELETE", "/tasks/r", "", nil, 202, `{"id":"r"}`},
		{"DELETE", "/tasks/r?reason=too+slow", "", nil, 202, `{"id":"r"}`},
		{"DELETE", "/tasks/e", "", nil, 409, "SUCCEEDED"},
		{"DELETE", "/tasks/x", "", nil, 404, `no job`},
		{"POST", "/tasks/e/resume", "", nil, 202, `{"id":"e"}`},
		{"POST", "/tasks/e/resume", `{"parallelism":4}`, nil, 202, `{"id":"e"}`},
		{"POST", "/tasks/e/resume", `{"parallelism":-1}`, nil, 400, "parallelism -1"},
		{"POST", "/tasks/r/resume", "", nil, 409, "RUNNING"},
		{"POST", "/tasks/r/resize", `{"parallelism":3}`, nil, 202, `{"id":"r"}`},
		{"POST", "/tasks/r/resize", `{"parallelism":0}`, nil, 400, "give a whole number from 1 to 65536"},
		{"POST", "/tasks/r/resize", `{"n":3}`, nil, 400, `there is no field \"n\": want one of: parallelism`},
		{"POST", "/tasks/r/resize", `{}`, nil, 400, "there is no parallelism"},
		{"POST", "/tasks/e/resize", `{"parallelism":3}`, nil, 409, "SUCCEEDED"},
		{"GET", "/tasks/r/stacks", "", nil, 200, "main.py:1"},
		{"GET", "/tasks/r/logs", "", nil, 200, "0| hello\n1| world\n"},
		{"GET", "/tasks/r/logs?function=1", "", nil, 200, "1| world\n"},
		{"GET", "/tasks/r/logs?function=x", "", nil, 400, "give the number of one"},
		{"GET", "/tasks/r/logs?follow=maybe", "", nil, 400, "give 0 or 1"},
		{"GET", "/tasks/x/logs", "", nil, 404, "no job"},
		{"GET", "/tasks/x/logs?follow=1", "", nil, 404, "no job"},
		{"GET", "/tasks/e/logs?follow=1", "", nil, 200, ""},
		{"GET", "/events?job=x", "", nil, 404, "no job"},
		{"GET", "/events?follow=maybe", "", nil, 400, `there is no parameter \"follow\"`},
		{"GET", "/tasks?bogus=1", "", nil, 400, `GET /tasks has no parameters, and not \"bogus\"`},
		{"POST", "/infer", `{"model_id":5}`, nil, 400, "model_id is of the wrong type, number: give a text in quotes"},
		{"GET", "/events?after=x", "", nil, 400, "event id"},
		{"GET", "/events?job=r&after=e:1:2", "", nil, 400, "is not of job"},
		{"GET", "/events?job=e", "", nil, 200, "event: end"},
		{"GET", "/history", "", nil, 200, `"id":"r"`},
		{"GET", "/history/e", "", nil, 200, `"accuracy":[null,96.5]`},
		{"GET", "/history/x", "", nil, 404, "no job"},
		{"DELETE", "/history/r", "", nil, 409, "RUNNING"},
		{"DELETE", "/history/e", "", nil, 204, ""},
		{"DELETE", "/history", "", nil, 200, `{"deleted":1}`},
		{"GET", "/models", "", nil, 200, `"id":"e"`},
		{"GET", "/models/e", "", nil, 200, "weights"},
		{"GET", "/models/x", "", nil, 404, "no model"},
		{"DELETE", "/models/e", "", nil, 204, ""},
		{"GET", "/functions", "", nil, 200, `[{"name":"mlp","runtime":"native"}]`},
		{"GET", "/functions/mlp", "", nil, 200, `{"name":"mlp"`},
		{"GET", "/functions/admin", "", nil, 404, `no function \"admin\"`},
		{"PUT", "/functions/net", "print()", nil, 200, `"version":"main.py=print();"`},
		{"PUT", "/functions/net?file=net.py", "print()", []string{"Content-Type", "text/x-python"}, 200, `"version":"net.py=print();"`},
		{"PUT", "/functions/net?file=../net.py", "print()", nil, 400, "without folders"},
		{"PUT", "/functions/net?file=net.sh", "print()", nil, 400, "a file of Python"},
		{"PUT", "/functions/net", "", nil, 400, "there is no code"},
		{"PUT", "/functions/far", `{"url":"http://x"}`, []string{"Content-Type", "application/json"}, 200, `"runtime":"remote","version":"http://x","urls":["http://x"]`},
		{"PUT", "/functions/far", `{"urls":["http://x","http://y"],"url":null}`, []string{"Content-Type", "application/json; charset=utf-8"}, 200, `"urls":["http://x","http://y"]`},
		{"PUT", "/functions/far", `{"urls":[]}`, []string{"Content-Type", "application/json"}, 400, "there is no URL"},
		{"PUT", "/functions/far", `{"urls":"http://x"}`, []string{"Content-Type", "application/json"}, 400, "urls is of the wrong type, string: give a list"},
		{"PUT", "/functions/far", `{"url":["http://x"]}`, []string{"Content-Type", "application/json"}, 400, "url is of the wrong type, array: give a text in quotes"},
		{"PUT", "/functions/far", `{"uri":"http://x"}`, []string{"Content-Type", "application/json"}, 400, `did you mean`},
		{"PUT", "/functions/far", `"http://x"`, []string{"Content-Type", "application/json"}, 400, "no JSON object"},
		{"PUT", "/functions/net", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "send a file of Python as text/x-python"},
		{"PUT", "/functions/net", "nothing", []string{"Content-Type", "application/x-tar"}, 400, "tar archive"},
		{"PUT", "/functions/mlp", "print()", []string{"If-None-Match", "*"}, 409, "is there"},
		{"PUT", "/functions/new", "print()", []string{"If-Match", "*"}, 404, "no function"},
		{"PUT", "/functions/new", "print()", []string{"If-Match", "v1"}, 400, "only *"},
		{"DELETE", "/functions/mlp", "", nil, 409, "built in"},
		{"DELETE", "/functions/x", "", nil, 404, "no function"},
		{"GET", "/dataset", "", nil, 200, `[{"name":"digits","train_set_size":1437,"test_set_size":360,"digest":"d1","built_in":true}]`},
		{"GET", "/dataset/digits", "", nil, 200, `"train_set_size":1437`},
		{"GET", "/dataset/kubeml", "", nil, 404, `no data set \"kubeml\"`},
		{"POST", "/dataset/new?label=y&test_share=0.5", form, multipart, 200, `"digest":"d.csv=1,2;y0.5"`},
		{"POST", "/dataset/digits", form, multipart, 409, `data set \"digits\" is there`},
		{"POST", "/dataset/new?test_share=1", form, multipart, 400, "between 0 and 1"},
		{"POST", "/dataset/new", form, nil, 415, "send multipart/form-data"},
		{"POST", "/dataset/new", "--b--\r\n", multipart, 400, "there are no files"},
		{"POST", "/dataset/new", "--b\r\n", multipart, 400, "cut off"},
		{"POST", "/dataset/new", strings.Replace(form, `"file"`, `"x-trian"`, 1), multipart, 400, `did you mean \"x-train\"`},
		{"POST", "/dataset/new", strings.Replace(form, `"file"; filename="d.csv"`, `"x-train"; filename="x.npy"`, 1), multipart, 400, "x-train comes without y-train: send that too"},
		{"POST", "/dataset/new", strings.Replace(form, `"file"; filename="d.csv"`, `"y-test"; filename="y.npy"`, 1), multipart, 400, "y-test comes without x-test"},
		{"POST", "/dataset/new", strings.Replace(form, `"file"; filename="d.csv"`, `"x-train"; filename="x.pkl"`, 1), multipart, 400, "pickle"},
		{"POST", "/dataset/new", strings.Replace(form, "d.csv", ".csv", 1), multipart, 400, "begins with a letter or digit"},
		{"DELETE", "/dataset/digits", "", nil, 204, ""},
		{"GET", "/cluster", "", nil, 200, `"leader":true`},
		{"POST", "/cluster/tokens", `{"name":"a","role":"read"}`, nil, 409, "has no tokens"},
		{"POST", "/cluster/tokens", `{"name":"a","role":"root"}`, nil, 400, "give one of read, submit, admin"},
		{"DELETE", "/cluster/tokens?name=a", "", nil, 409, "has no tokens"},
		{"POST", "/cluster/tokens", `{"name":"a","role":"join"}`, nil, 404, "no node can join this server"},
		{"GET", "/cluster/join", "", nil, 404, "no node can join this server"},
		{"DELETE", "/cluster/tokens", "", nil, 400, "there is no name"},
		{"GET", "/health", "", nil, 200, `{"status":"ready","version":"test"}`},
		{"GET", "/metrics", "", nil, 404, "counts nothing"},
		{"GET", "/openapi.json", "", nil, 200, `"openapi":"3.1.0"`},
		// What there is not.
		{"GET", "/", "", nil, 404, "GET /openapi.json says what there is"},
		{"GET", "/nothing", "", nil, 404, "there is no"},
		{"GET", "/train", "", nil, 405, "GET is not for \\\"/train\\\": use POST"},
		{"PATCH", "/functions/mlp", "", nil, 405, "use GET or PUT or DELETE"},
		{"GET", "/tasks/", "", nil, 404, "empty or relative"},
		{"DELETE", "/history/x/..", "", nil, 404, "empty or relative"},
		{"DELETE", "/history/%2e%2e", "", nil, 400, "job name"},
		{"DELETE", "/history//", "", nil, 404, "empty or relative"},
		{"GET", "/functions/..%2f..%2fetc", "", nil, 400, "function name"},
		{"GET", "/dataset/..%2f..%2fetc", "", nil, 400, "data set name"},
		{"GET", "/models/..%2f..%2fetc", "", nil, 400, "model name"},
		{"GET", "/models/%00", "", nil, 400, "model name"},
		{"GET", "/dataset/x.csv", "", nil, 400, "that of a file"},
		{"GET", "/functions/x.py", "", nil, 400, "that of a file"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			s := start(t)
			settled(s)
			response, body := s.do(c.method, c.path, c.body, c.headers...)
			require.Equal(t, c.status, response.StatusCode, body)
			require.Contains(t, body, c.says)
			if c.status >= 400 {
				require.Regexp(t, `^\{"error":".+","code":`+response.Status[:3]+`\}\n$`, body)
				require.Equal(t, "application/json", response.Header.Get("Content-Type"))
			}
			require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
		})
	}
}

func TestChangesReachTheCompany(t *testing.T) {
	s := start(t)
	settled(s)
	s.do("DELETE", "/tasks/r", "")
	s.do("DELETE", "/tasks/r?reason=too+slow", "")
	s.do("POST", "/tasks/r/resize", `{"parallelism":3}`)
	s.do("POST", "/tasks/e/resume", "")
	s.do("POST", "/tasks/e/resume", `{"parallelism":2}`)
	require.Equal(t, []string{
		"stop r: asked for over HTTP", "stop r: too slow", "resize r to 3", "resume e with 0", "resume e with 2",
	}, s.company.Calls())
}

// Nothing that a GET or HEAD does changes anything.
func TestReadingChangesNothing(t *testing.T) {
	s := start(t)
	settled(s)
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{
			"/tasks", "/tasks/r", "/tasks/e", "/tasks/r/stacks", "/tasks/r/logs", "/tasks/e/logs?follow=1", "/events?job=e", "/history", "/history/e",
			"/models", "/models/e", "/functions", "/functions/mlp", "/dataset", "/dataset/digits", "/cluster", "/health", "/metrics", "/openapi.json",
		} {
			s.do(method, path, "")
		}
	}
	s.do("HEAD", "/events", "")                // which nobody would end
	s.do("HEAD", "/tasks/r/logs?follow=1", "") // nor this
	require.Empty(t, s.company.Calls())
}

func TestTheSameKeyGivesTheSameJob(t *testing.T) {
	s := start(t)
	const body = `{"function_name":"mlp","dataset":"digits"}`
	_, a := s.do("POST", "/train", body, "Idempotency-Key", "k")
	_, b := s.do("POST", "/train", body, "Idempotency-Key", "k")
	_, c := s.do("POST", "/train", body)
	_, d := s.do("POST", "/train", body)
	require.Equal(t, a, b)
	require.NotEqual(t, a, c)
	require.NotEqual(t, c, d)
	response, _ := s.do("POST", "/train", body, "Idempotency-Key", strings.Repeat("k", 256))
	require.Equal(t, 400, response.StatusCode)
}

func TestEveryKindHasItsStatus(t *testing.T) {
	s := start(t)
	for kind, status := range map[fault.Kind]int{
		fault.Unknown: 500, fault.Invalid: 400, fault.NotFound: 404, fault.Conflict: 409, fault.Unavailable: 503, fault.Corrupt: 500,
		fault.UserCode: 422, fault.Rejected: 422,
	} {
		err := fault.New("test.fail", kind, "it is so")
		err.Trace = "line 1"
		s.company.Fail(err)
		response, body := s.do("GET", "/tasks", "")
		require.Equal(t, status, response.StatusCode, kind)
		require.Contains(t, body, `it is so\nline 1`)
		require.Equal(t, kind.String(), response.Header.Get("Troupe-Error-Kind"))
		require.Equal(t, kind == fault.Unavailable, response.Header.Get("Retry-After") != "")
	}
	require.Len(t, fault.Kinds(), 8, "a new kind needs its status")
}

// clumsy panics where it can.
type clumsy struct{ *apitest.Company }

func (clumsy) Cluster(context.Context) ([]api.Node, error) { panic("clumsy") }

func (clumsy) Log(_ context.Context, _ string, _ int, _ bool, w io.Writer) error {
	_, _ = io.WriteString(w, "half a line")
	panic("clumsy")
}

func TestAPanicIsA500OrACutOffAnswer(t *testing.T) {
	s := start(t, func(_ *config.API, d *api.Deps) {
		d.Company = clumsy{d.Company.(*apitest.Company)}
		d.Log = zap.NewNop() // which it says as an error
	})
	response, body := s.do("GET", "/cluster", "")
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	require.Contains(t, body, "a bug of troupe")
	response, err := http.Get(s.URL() + "/tasks/r/logs")
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	require.Error(t, err, "nobody takes half an answer for whole")
	response, _ = s.do("GET", "/health", "")
	require.Equal(t, 200, response.StatusCode, "the server lives on")
}
