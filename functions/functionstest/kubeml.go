package functionstest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/tensor"
)

// KubeML is an HTTP endpoint whose function trains nothing: it puts the model that
// it got, tells its results by POST /next, as KubeML's functions do, and answers
// once that has. All of a round wait for each other there. T and Loss are required;
// it is safe for concurrent use.
type KubeML struct {
	T    testing.TB
	Loss func(function string) string // as JSON
	Cut  bool                         // its trained models are cut short

	mu   sync.Mutex // guards next
	next map[int]int
}

// Next returns how often POST /next has answered which status.
func (k *KubeML) Next() map[int]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.next)
}

// ServeHTTP takes an invocation. It says nothing where its job has gone.
func (k *KubeML) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	function := q.Get("funcId")
	results := `{"id": ` + function + `, "results": {"loss": ` + k.Loss(function) + `}}`
	switch q.Get("task") {
	case string(functions.Init):
		k.put(q, k.first())
	case string(functions.Train):
		model, err := http.Get(q.Get("jobUrl") + "/model")
		if err != nil {
			return
		}
		defer func() { _ = model.Body.Close() }()
		body, err := io.ReadAll(model.Body)
		if k.Cut {
			body = body[:len(body)-1]
		}
		if err != nil || !k.put(q, body) {
			return
		}
		next, err := http.Post(q.Get("jobUrl")+"/next/"+function, "application/json", strings.NewReader(results))
		if err != nil {
			return
		}
		_ = next.Body.Close()
		k.mu.Lock()
		if k.next == nil {
			k.next = map[int]int{}
		}
		k.next[next.StatusCode]++
		k.mu.Unlock()
	}
	_, _ = io.WriteString(w, results)
}

// put reports whether the job has taken a model.
func (k *KubeML) put(q url.Values, model []byte) bool {
	put, err := http.NewRequest(http.MethodPut, q.Get("jobUrl")+"/model/"+q.Get("funcId"), bytes.NewReader(model))
	if err != nil {
		k.T.Error(err)
		return false
	}
	stored, err := http.DefaultClient.Do(put)
	if err != nil {
		return false
	}
	_ = stored.Body.Close()
	return stored.StatusCode == http.StatusOK
}

// first is the model that the function begins with.
func (k *KubeML) first() []byte {
	var b functions.Buffer
	d := tensor.StateDict{{Spec: tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int64{2}}, Data: make([]byte, 8)}}
	if err := functions.WriteDict(&b, d); err != nil {
		k.T.Error(err)
	}
	return b.Bytes()
}
