package sse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/sse"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		flushed := 0
		w := sse.NewWriter(&b, func() error { flushed++; return nil })
		sent := []sse.Event{{ID: "j:1:1", Name: "queued", Data: []byte(`{"a":": x"}`)}, {Name: "end", Data: []byte("{}")}}
		require.NoError(t, w.While(context.Background(), time.Second, func() error {
			require.NoError(t, w.Send(sent[0]))
			time.Sleep(1500 * time.Millisecond)
			return w.Send(sent[1])
		}))
		require.Equal(t, 4, flushed, "the beginning, two events, and a heartbeat between them")
		var read []sse.Event
		require.ErrorIs(t, sse.Read(&b, func(e sse.Event) error {
			if e.Name != "" {
				read = append(read, e)
			}
			return nil
		}), io.ErrUnexpectedEOF)
		require.Equal(t, sent, read)
	})
}

func TestNobodyReads(t *testing.T) {
	gone := errors.New("gone")
	w := sse.NewWriter(io.Discard, func() error { return gone })
	require.True(t, w.Failed())
	require.ErrorIs(t, w.Send(sse.Event{Name: "queued"}), gone)
}

func TestTheReaderMayEndIt(t *testing.T) {
	enough := errors.New("enough")
	require.ErrorIs(t, sse.Read(bytes.NewBufferString("event: a\ndata: 1\n\nevent: b\n\n"), func(e sse.Event) error {
		require.Equal(t, "a", e.Name)
		return enough
	}), enough)
}
