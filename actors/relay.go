package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// Where nodes talk about the jobs of endpoints: an attempt is open at the node that
// runs it, but endpoints know the address of the node that leads, and that alone
// knows what was merged.
const (
	jobsPath   = "/jobs/"   // of a node: what endpoints ask about attempts that are open there
	jobURLPath = "/job-url" // of the node that leads: where endpoints find a job
	mergedPath = "/merged"  // of the node that leads: answers once a round is merged
)

// atNode is below what the node that leads passes on to another one.
const atNode = jobsPath + "{job}/at/{node}"

// newRelay serves what endpoints ask: of another node's attempts that node does, of
// all others here. A request that is passed on carries a token: there it comes from
// us, whoever has sent it.
func newRelay(client func(node string) (*http.Client, string, error), here http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", here)
	for _, path := range remote.Paths() {
		mux.HandleFunc(atNode+path, func(w http.ResponseWriter, r *http.Request) {
			job, node := r.PathValue("job"), r.PathValue("node")
			if r.Header.Get("Authorization") == "" {
				remote.Unauthorized(w)
				return
			}
			c, base, err := client(node)
			if err != nil {
				remote.Refuse(w, fault.New("actors.relay", fault.Conflict, "no attempt of job %.100s is open: %w", job, err))
				return
			}
			remote.Pass(w, r, c.Transport, base+jobsPath+job, fmt.Sprintf("%s%s/at/%s", jobsPath, job, node), "node "+node)
		})
	}
	return mux
}

// jobAt is the answer to jobURLPath.
type jobAt struct {
	URL         string `json:"url"`
	Fingerprint string `json:"fingerprint"`
}

// tellURL answers jobURLPath.
func (r *remotes) tellURL(w http.ResponseWriter, q *http.Request) {
	at, err := r.url(q.URL.Query().Get("job"))
	if err != nil {
		httpfault.Fail(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(jobAt{at, r.fingerprint()}) // who has gone asks again
}

// tellMerged answers mergedPath.
func (r *remotes) tellMerged(w http.ResponseWriter, q *http.Request) {
	var ref remote.Ref
	if err := json.NewDecoder(io.LimitReader(q.Body, 1<<16)).Decode(&ref); err != nil {
		httpfault.Fail(w, fault.New("actors.merged", fault.Invalid, "%w", err))
		return
	}
	if err := r.merges.wait(q.Context(), ref); err != nil {
		httpfault.Fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// farJobs is where a node that does not lead has its endpoints find jobs, and asks
// what became of rounds. It is safe for concurrent use.
type farJobs struct {
	node  string
	nodes *Nodes

	mu   sync.Mutex // guards last
	last string     // fingerprint
}

// url is where endpoints find a job's attempts that are open here: at the node that
// leads, which passes on what they ask.
func (f *farJobs) url(ctx context.Context, job string) (string, error) {
	const op = "actors.joburl"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	response, err := f.nodes.askLeader(ctx, op, http.MethodGet, jobURLPath+"?"+url.Values{"job": {job}}.Encode(), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var at jobAt
	if err := json.NewDecoder(response.Body).Decode(&at); err != nil {
		return "", fault.New(op, fault.Unavailable, "the node that leads: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = at.Fingerprint
	return at.URL + "/at/" + f.node, nil
}

func (f *farJobs) fingerprint() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// wait is a remote.Next. Where the node that leads is away it is asked again.
func (f *farJobs) wait(ctx context.Context, ref remote.Ref) error {
	const op = "actors.next"
	body, err := json.Marshal(ref)
	if err != nil {
		return err
	}
	for {
		response, err := f.nodes.askLeader(ctx, op, http.MethodPost, mergedPath, body)
		if err == nil {
			return response.Body.Close()
		}
		if fault.KindOf(err) != fault.Unavailable {
			return err
		}
		if err := pause(ctx, askAgain); err != nil {
			return err
		}
	}
}
