package jobprocess

import (
	"net/http"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
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
		remote.Refuse(w, fault.New("jobprocess.pass", fault.Conflict, "job %s has no attempt that is open: no process of it is there", id))
		return
	}
	remote.Pass(w, r, c.http.Transport, c.url, "/jobs/"+id, "the process of job "+id)
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
