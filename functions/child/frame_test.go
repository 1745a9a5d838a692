package child_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/child"
)

// fromWorker is a message.
type fromWorker struct {
	Batch  *int             `json:"batch"`
	Create map[string]int64 `json:"create"`
	Done   *struct {
		Metrics map[string][2]json.Number `json:"metrics"`
	} `json:"done"`
}

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, child.WriteFrame(&buf, map[string]int{"batch": 3}))
	require.NoError(t, child.WriteFrame(&buf, map[string]any{"create": map[string]int{"model": 10}}))
	require.Equal(t, append([]byte{0, 0, 0, 11}, `{"batch":3}`...), buf.Bytes()[:15])
	var m fromWorker
	require.NoError(t, child.ReadFrame(&buf, &m))
	require.Equal(t, 3, *m.Batch)
	require.NoError(t, child.ReadFrame(&buf, &m))
	require.Equal(t, map[string]int64{"model": 10}, m.Create)
	require.Equal(t, io.EOF, child.ReadFrame(&buf, &m))
}

func TestFramesAreBounded(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, child.WriteFrame(&buf, strings.Repeat("x", child.MaxFrame-2)))
	require.Error(t, child.WriteFrame(&buf, strings.Repeat("x", child.MaxFrame-1)))
	require.Equal(t, 4+child.MaxFrame, buf.Len(), "nothing is written of one that is too long")
	var s string
	require.NoError(t, child.ReadFrame(&buf, &s))
	require.Len(t, s, child.MaxFrame-2)
	require.Error(t, child.ReadFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, child.MaxFrame+1)), &s))
}

func FuzzReadFrame(f *testing.F) {
	for _, text := range []string{
		`{"batch":1}`, `{"create":{"model":9,"optimizer":8}}`, `{"done":{"samples":3,"batches":1,"loss":"nan","metrics":{"a":[1,null]}}}`,
		`{"failed":{"kind":"user","type":"E","message":"m","traceback":"t","method":"train"}}`, `{`, `[]`, `{"done":{"metrics":{"a":[1]}}}`,
	} {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m fromWorker
		r := bytes.NewReader(data)
		if child.ReadFrame(r, &m) == nil {
			require.Equal(t, binary.BigEndian.Uint32(data), uint32(len(data)-r.Len()-4), "it takes one frame and no more")
		}
	})
}
