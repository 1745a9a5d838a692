package remote_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
)

// Whatever a function answers, it is an answer or an error, and what is sent on of
// it is read as the same.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{
		good, `{"id": 1, "results": {"loss_sum": "NaN", "correct": -1, "metrics": {"m": {"sum": "+Inf", "weight": 0}}}}`,
		`{"id": 1, "results": {"predictions": [1, {"a": null}], "loss": null, "samples": -9}}`, `[]`, `{"id": 1e9}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var results remote.FunctionResults
		if json.Unmarshal(body, &results) != nil {
			return
		}
		for _, task := range []functions.Task{functions.Init, functions.Train, functions.Val, functions.Infer} {
			inv := functions.Invocation{Task: task, Index: results.ID, BatchSize: 2, Positions: []int64{1, 2, 3}}
			answer, err := results.Answer(inv)
			if err != nil || answer.Samples == 0 {
				continue // without samples a mean is none
			}
			again, err := readJSON[remote.FunctionResults](t, asJSON(t, remote.ResultsOf(results.ID, task, answer))).Answer(inv)
			require.NoError(t, err)
			require.Equal(t, asJSON(t, remote.ResultsOf(results.ID, task, answer)), asJSON(t, remote.ResultsOf(results.ID, task, again)))
		}
	})
}

// A call that is read is sent on as the same.
func FuzzCall(f *testing.F) {
	f.Add("task=train&jobId=x&N=1&K=-1&funcId=0&batchSize=1&lr=0.1&epoch=0&round=0&attempt=0&incarnation=0&jobUrl=http://h/jobs/x/")
	f.Add("task=val&jobId=%00&N=99999999999999999999")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		call, err := remote.ParseCall(q)
		if err != nil {
			return
		}
		target, err := call.URL("http://e/f?key=1")
		require.NoError(t, err)
		u, err := url.Parse(target)
		require.NoError(t, err)
		again, err := remote.ParseCall(u.Query())
		require.NoError(t, err)
		require.Equal(t, call, again)
	})
}

func FuzzDigest(f *testing.F) {
	f.Add(remote.Digest{}.String())
	f.Add("md5=:x:, sha-256=::")
	f.Fuzz(func(t *testing.T, header string) {
		if d, ok, err := remote.ParseDigest(header); ok && err == nil {
			again, ok, err := remote.ParseDigest(d.String())
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, d, again)
		}
	})
}
