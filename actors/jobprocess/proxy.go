package jobprocess

import (
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// jobsPath is below what endpoints of remote functions find their jobs.
const jobsPath = "/jobs/{job}"

// newProxy serves what endpoints of remote functions ask a job: its process does.
// Nothing else of the process can be reached. Who may ask is for the caller to
// know, as far as the token of an attempt does not tell: it comes to the process
// over loopback, where none is needed.
func (l *Launcher) newProxy() http.Handler {
	mux := http.NewServeMux()
	for _, path := range remote.Paths() {
		mux.HandleFunc(jobsPath+path, l.pass)
	}
	return mux
}

// ServeHTTP serves /jobs/{id}/… for the processes that are there.
func (l *Launcher) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.proxy.ServeHTTP(w, r) }

func (l *Launcher) pass(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("job")
	c := l.clientOf(id)
	if c == nil {
		refuse(w, fault.New("jobprocess.pass", fault.Conflict, "job %s has no attempt that is open: no process of it is there", id))
		return
	}
	to, err := url.Parse(c.url)
	if err != nil {
		refuse(w, fault.New("jobprocess.pass", fault.Unknown, "job %s: %w", id, err))
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport: c.http.Transport, FlushInterval: -1, ErrorLog: zap.NewStdLog(zap.NewNop()),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, "/jobs/"+id)
			p.Out.URL.RawPath = ""
			p.SetURL(to)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, fault.New("jobprocess.pass", fault.Unavailable, "the process of job %s: %w", id, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, err error) {
	status := httpfault.Status(fault.KindOf(err))
	body, wrong := json.Marshal(httpfault.NewErrorBody(status, err))
	if wrong != nil {
		panic(wrong) // our own types are JSON
	}
	w.Header().Set(httpfault.Header, fault.KindOf(err).String())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone is told nothing
}

// clientOf returns what speaks to a job's process; nil: none is there that listens.
func (l *Launcher) clientOf(id string) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.there[id] {
		if p.client != nil {
			return p.client
		}
	}
	return nil
}
