// Package planetest is what every plane.Space must do, as a test.
package planetest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
)

// Node is the name under which the suite wants its spaces opened.
const Node = "n1"

// Run checks the spaces that open returns: empty, of node Node, with room for
// a few MiB, and closed by the test's cleanup (Close is idempotent).
func Run(t *testing.T, open func(t *testing.T) plane.Space) {
	t.Run("what is sealed can be read", func(t *testing.T) { sealed(t, open(t)) })
	t.Run("a draft is invisible until sealed, and its key taken", func(t *testing.T) { drafts(t, open(t)) })
	t.Run("the length written must be the length reserved", func(t *testing.T) { lengths(t, open(t)) })
	t.Run("a draft can be copied into", func(t *testing.T) { copied(t, open(t)) })
	t.Run("a ref that is not right is refused", func(t *testing.T) { refs(t, open(t)) })
	t.Run("keys that are not path-safe are refused", func(t *testing.T) { keys(t, open(t)) })
	t.Run("removal frees room and leaves open blobs readable", func(t *testing.T) { removal(t, open(t)) })
	t.Run("a draft written through its path seals without a digest", func(t *testing.T) { byPath(t, open(t)) })
	t.Run("listing is by prefix, ascending, sealed only", func(t *testing.T) { listing(t, open(t)) })
	t.Run("closing forgets everything, twice", func(t *testing.T) { closing(t, open(t)) })
	t.Run("many writers at once", func(t *testing.T) { concurrent(t, open(t)) })
}

func sealed(t *testing.T, s plane.Space) {
	for _, size := range []int{0, 1, 4096, 1<<20 + 7} {
		key := fmt.Sprintf("j1/model-%d.safetensors", size)
		want := content(size)
		ref := put(t, s, key, want)
		require.Equal(t, plane.Ref{Node: Node, Key: key, Bytes: int64(size), Digest: xxhash.Sum64(want)}, ref)
		require.Equal(t, want, get(t, s, ref))
		blob, err := s.Open(t.Context(), ref)
		require.NoError(t, err)
		require.EqualValues(t, size, blob.Size())
		if path := blob.Path(); path != "" {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, data)
		}
		require.NoError(t, blob.Close())
	}
}

func copied(t *testing.T, s plane.Space) {
	for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 1<<20 + 7} {
		want := content(size)
		d, err := s.Create(fmt.Sprintf("whole-%d", size), int64(size))
		require.NoError(t, err)
		half := size / 2
		_, err = d.Write(want[:half])
		require.NoError(t, err)
		n, err := io.Copy(d, struct{ io.Reader }{bytes.NewReader(want[half:])})
		require.NoError(t, err)
		require.EqualValues(t, size-half, n)
		ref, err := d.Seal()
		require.NoError(t, err)
		require.Equal(t, xxhash.Sum64(want), ref.Digest)
		require.Equal(t, want, get(t, s, ref))

		d, err = s.Create(fmt.Sprintf("long-%d", size), int64(size))
		require.NoError(t, err)
		_, err = io.Copy(d, struct{ io.Reader }{bytes.NewReader(content(size + 1))})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "one byte more than reserved")
		require.NoError(t, d.Abort())
	}
}

func drafts(t *testing.T, s plane.Space) {
	d, err := s.Create("a", 3)
	require.NoError(t, err)
	_, err = s.Create("a", 3)
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	_, err = s.Open(t.Context(), plane.Ref{Node: Node, Key: "a", Bytes: 3})
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.Equal(t, plane.Usage{Bytes: 3, Files: 1, Peak: 3}, s.Usage())

	require.NoError(t, d.Abort())
	require.NoError(t, d.Abort())
	require.Equal(t, plane.Usage{Peak: 3}, s.Usage())
	_, err = d.Write([]byte("x"))
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	_, err = d.Seal()
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)

	ref := put(t, s, "a", []byte("abc")) // the key is free again
	_, err = s.Create("a", 3)
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.Equal(t, "abc", string(get(t, s, ref)))
}

func lengths(t *testing.T, s plane.Space) {
	d, err := s.Create("short", 3)
	require.NoError(t, err)
	_, err = d.Write([]byte("ab"))
	require.NoError(t, err)
	_, err = d.Seal()
	require.Equal(t, fault.Invalid, fault.KindOf(err), err)
	require.ErrorContains(t, err, "2 bytes written, 3 reserved")
	require.Zero(t, s.Usage().Bytes, "a failed seal gives the room back")

	d, err = s.Create("long", 3)
	require.NoError(t, err)
	_, err = d.Write([]byte("abcd"))
	require.Equal(t, fault.Invalid, fault.KindOf(err), err)
	require.NoError(t, d.Abort())

	_, err = s.Create("negative", -1)
	require.Equal(t, fault.Invalid, fault.KindOf(err), err)
	require.Empty(t, s.List(""))
}

func refs(t *testing.T, s plane.Space) {
	ref := put(t, s, "a", []byte("abc"))
	for name, c := range map[string]struct {
		ref  plane.Ref
		kind fault.Kind
	}{
		"another length": {plane.Ref{Node: Node, Key: "a", Bytes: 4}, fault.Corrupt},
		"another node":   {plane.Ref{Node: "n2", Key: "a", Bytes: 3}, fault.Invalid},
		"another key":    {plane.Ref{Node: Node, Key: "b", Bytes: 3}, fault.NotFound},
		"a bad key":      {plane.Ref{Node: Node, Key: "../a", Bytes: 3}, fault.Invalid},
	} {
		_, err := s.Open(t.Context(), c.ref)
		require.Equal(t, c.kind, fault.KindOf(err), "%s: %v", name, err)
	}
	require.Equal(t, "abc", string(get(t, s, ref)))
}

func keys(t *testing.T, s plane.Space) {
	long := make([]byte, 201)
	for i := range long {
		long[i] = 'k'
	}
	for _, key := range []string{"", ".", "..", "../a", "a/../b", "/a", "a/", "a//b", ".hidden", "a b", "a\x00b", "a~b", "ä", `a\b`, string(long)} {
		_, err := s.Create(key, 1)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "key %q: %v", key, err)
	}
	put(t, s, string(long[:200]), []byte("x"))
	put(t, s, "j-1/e_2/r.3/F4", []byte("x"))
}

func removal(t *testing.T, s plane.Space) {
	ref := put(t, s, "a", []byte("abc"))
	put(t, s, "b", []byte("de"))
	blob, err := s.Open(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, s.Remove("a", "nothing"))
	require.NoError(t, s.Remove("a"))
	require.Equal(t, plane.Usage{Bytes: 2, Files: 1, Peak: 5}, s.Usage())
	data, err := io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))
	require.NoError(t, blob.Close())
	_, err = s.Open(t.Context(), ref)
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.Equal(t, []string{"b"}, s.List(""))
}

func byPath(t *testing.T, s plane.Space) {
	for size, kind := range map[int]fault.Kind{3: fault.Unknown, 2: fault.Invalid, 4: fault.Invalid} {
		d, err := s.Create("p", 3)
		require.NoError(t, err)
		if d.Path() == "" {
			require.NoError(t, d.Abort())
			return // a space without files
		}
		f, err := os.OpenFile(d.Path(), os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.Write(content(size))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		ref, err := d.Seal()
		require.Equal(t, kind, fault.KindOf(err), err)
		if size == 3 {
			require.NoError(t, err)
			require.Zero(t, ref.Digest)
			require.Equal(t, content(3), get(t, s, ref))
			require.NoError(t, s.Remove("p"))
		}
	}
}

func listing(t *testing.T, s plane.Space) {
	for _, key := range []string{"j1/b", "j2/a", "j1/a", "j10/a"} {
		put(t, s, key, nil)
	}
	d, err := s.Create("j1/draft", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"j1/a", "j1/b"}, s.List("j1/"))
	require.Equal(t, []string{"j1/a", "j1/b", "j10/a", "j2/a"}, s.List(""))
	require.Empty(t, s.List("j3"))
	require.NoError(t, d.Abort())
}

func closing(t *testing.T, s plane.Space) {
	ref := put(t, s, "a", []byte("abc"))
	d, err := s.Create("b", 1)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Create("c", 1)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	_, err = s.Open(t.Context(), ref)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	_, _ = d.Write([]byte("x"))
	_, err = d.Seal()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.NoError(t, d.Abort())
	require.NoError(t, s.Remove("a"))
	require.Empty(t, s.List(""))
	require.Equal(t, plane.Usage{Peak: 4}, s.Usage())
}

func concurrent(t *testing.T, s plane.Space) {
	const writers, each = 8, 20
	var wg sync.WaitGroup
	refs := make([][]plane.Ref, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				d, err := s.Create(fmt.Sprintf("w%d/%d", w, i), 100)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = d.Write(content(100))
				ref, err := d.Seal()
				if err != nil {
					t.Error(err)
					return
				}
				refs[w] = append(refs[w], ref)
			}
		})
	}
	wg.Wait()
	require.Len(t, s.List(""), writers*each)
	require.EqualValues(t, writers*each*100, s.Usage().Bytes)
	for _, of := range refs {
		for _, ref := range of {
			require.Equal(t, content(100), get(t, s, ref))
		}
	}
}

func put(t *testing.T, s plane.Space, key string, data []byte) plane.Ref {
	t.Helper()
	d, err := s.Create(key, int64(len(data)))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Abort()) }()
	half := len(data) / 2
	_, err = d.Write(data[:half])
	require.NoError(t, err)
	_, err = d.Write(data[half:])
	require.NoError(t, err)
	ref, err := d.Seal()
	require.NoError(t, err)
	return ref
}

func get(t *testing.T, s plane.Space, ref plane.Ref) []byte {
	t.Helper()
	blob, err := s.Open(t.Context(), ref)
	require.NoError(t, err)
	data := make([]byte, blob.Size())
	_, err = blob.ReadAt(data, 0)
	if len(data) > 0 {
		require.NoError(t, err)
	}
	require.NoError(t, blob.Close())
	return data
}

// content is n bytes that are not all alike.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i>>8)
	}
	return b
}
