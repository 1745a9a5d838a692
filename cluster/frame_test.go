package cluster_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/internal/fault"
)

// FuzzReadFrame reads what anybody may send: a frame that is one comes back as it
// was, and nothing makes it take more than MaxFrame.
func FuzzReadFrame(f *testing.F) {
	f.Add(cluster.Frame(1, []byte("x")))
	f.Add(cluster.Frame(4, nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		k, body, err := cluster.ReadFrame(bytes.NewReader(sent))
		if err != nil {
			require.Contains(t, []fault.Kind{fault.Corrupt, fault.Unknown}, fault.KindOf(err))
			return
		}
		require.LessOrEqual(t, len(body), cluster.MaxFrame)
		require.True(t, bytes.HasPrefix(sent, cluster.Frame(k, body)))
	})
}
