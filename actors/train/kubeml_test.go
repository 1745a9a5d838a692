package train_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestFunctionArgsBuildTheFunctionURL(t *testing.T) {
	at, err := train.FunctionArgs{Id: 1, Num: 4}.URL("https://fn.example/net?key=7", remote.Call{
		Ref: remote.Ref{Job: "j", Task: train.Train, Epoch: 2, Incarnation: 1}, K: -1, BatchSize: 64, LR: 0.01, JobURL: "http://127.0.0.1:9090",
	})
	require.NoError(t, err)
	u, err := url.Parse(at)
	require.NoError(t, err)
	require.Equal(t, "fn.example/net", u.Host+u.Path)
	for name, want := range map[string]string{
		"key": "7", "task": "train", "jobId": "j", "N": "4", "K": "-1", "funcId": "1", "batchSize": "64", "lr": "0.01", "epoch": "2",
		"round": "0", "attempt": "0", "incarnation": "1", "jobUrl": "http://127.0.0.1:9090",
	} {
		require.Equal(t, want, u.Query().Get(name), name)
	}
	_, err = train.FunctionArgs{}.URL("ftp://x", remote.Call{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, []train.FunctionTask{"train", "val", "init", "infer"}, []train.FunctionTask{train.Train, train.Validation, train.Init, train.Inference})
}

// The statuses that POST /next answers with.
func TestMergeResultsAreStatuses(t *testing.T) {
	require.Equal(t, 200, train.MergeSucceeded.Status())
	require.Equal(t, 500, train.MergeFailed.Status())
}
