package python_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/python"
)

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, python.WriteFrame(&buf, map[string]int{"batch": 3}))
	require.NoError(t, python.WriteFrame(&buf, map[string]any{"create": map[string]int{"model": 10}}))
	require.Equal(t, append([]byte{0, 0, 0, 11}, `{"batch":3}`...), buf.Bytes()[:15])
	var m python.FromWorker
	require.NoError(t, python.ReadFrame(&buf, &m))
	require.Equal(t, 3, *m.Batch)
	require.NoError(t, python.ReadFrame(&buf, &m))
	require.Equal(t, map[string]int64{"model": 10}, m.Create)
	require.Equal(t, io.EOF, python.ReadFrame(&buf, &m))
}

func TestFramesAreBounded(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, python.WriteFrame(&buf, strings.Repeat("x", python.MaxFrame-2)))
	require.Error(t, python.WriteFrame(&buf, strings.Repeat("x", python.MaxFrame-1)))
	require.Equal(t, 4+python.MaxFrame, buf.Len(), "nothing is written of one that is too long")
	var s string
	require.NoError(t, python.ReadFrame(&buf, &s))
	require.Len(t, s, python.MaxFrame-2)
	require.Error(t, python.ReadFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, python.MaxFrame+1)), &s))
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
		var m python.FromWorker
		r := bytes.NewReader(data)
		if python.ReadFrame(r, &m) == nil {
			require.Equal(t, binary.BigEndian.Uint32(data), uint32(len(data)-r.Len()-4), "it takes one frame and no more")
		}
	})
}
