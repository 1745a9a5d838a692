package bench_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/plane/remote"
)

// BenchmarkPlane has a model go to all nodes but the first, which has it, and an
// answer come back from each, over TLS, all nodes in this process; beside it the
// same bytes are copied over bare TLS, from memory to nowhere.
func BenchmarkPlane(b *testing.B) {
	for _, nodes := range []int{2, 3} {
		for _, megabytes := range []int64{1, 10, 100, 600} {
			b.Run(fmt.Sprintf("nodes=%d/model=%dMB", nodes, megabytes), func(b *testing.B) {
				benchmarkPlane(b, nodes, megabytes*1e6)
			})
		}
	}
}

func benchmarkPlane(b *testing.B, nodes int, size int64) {
	c := newPlanes(b, nodes)
	bare := newBareTLS(b, nodes-1)
	var ours, theirs []float64
	peak := watchMemory(b)
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		refs := make([]plane.Ref, nodes) // the model, and the answers of the others
		for i := range refs {
			refs[i] = c.fill(b, i, fmt.Sprintf("j/1/%d/%d", round, i), size)
		}
		b.StartTimer()
		ours = append(ours, seconds(func() { c.round(b, refs) }))
		b.StopTimer()
		theirs = append(theirs, seconds(func() { bare.round(b, size) }))
		for _, space := range c.spaces {
			require.NoError(b, space.Remove(space.List("")...))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(peak())/1e3, "peak-anon-MB")
	b.ReportMetric(float64(c.sent.Load())/float64(len(ours))/float64(nodes-1)/float64(size), "models/node")
	b.ReportMetric(median(ours), "s/round")
	b.ReportMetric(median(theirs)/median(ours), "of-tls")
}

// planes is the planes of several nodes.
type planes struct {
	spaces []*remote.Space
	sent   atomic.Int64 // bytes of bodies, by all
}

func newPlanes(b *testing.B, nodes int) *planes {
	b.Helper()
	c := &planes{}
	servers := map[string]*httptest.Server{}
	for i := range nodes {
		name := fmt.Sprint("n", i)
		local, err := plane.OpenScratch(config.Scratch{Dir: b.TempDir()}, name, nil)
		require.NoError(b, err)
		handler := remote.NewHandler(name, local)
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(&counted{w, &c.sent}, r)
		}))
		b.Cleanup(server.Close)
		transport := server.Client().Transport.(*http.Transport)
		transport.ReadBufferSize, transport.WriteBufferSize = 256<<10, 256<<10 // as those of the cluster
		servers[name] = server
		c.spaces = append(c.spaces, remote.New(remote.Config{Local: local, Node: name, Idle: 1 << 30, Peer: func(node string) (*http.Client, string, error) {
			return servers[node].Client(), servers[node].URL, nil
		}}))
	}
	b.Cleanup(func() {
		for _, space := range c.spaces {
			require.NoError(b, space.Close())
		}
	})
	return c
}

// counted counts what is written.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// fill seals bytes on a node.
func (c *planes) fill(b *testing.B, node int, key string, size int64) plane.Ref {
	b.Helper()
	draft, err := c.spaces[node].Create(key, size)
	require.NoError(b, err)
	window := noiseBytes(1 << 20)
	for left := size; left > 0; left -= int64(len(window)) {
		_, err := draft.Write(window[:min(left, int64(len(window)))])
		require.NoError(b, err)
	}
	ref, err := draft.Seal()
	require.NoError(b, err)
	return ref
}

func noiseBytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * i >> 5)
	}
	return p
}

// round moves the model out, to two slots of each node, then the answers in.
func (c *planes) round(b *testing.B, refs []plane.Ref) {
	var moving sync.WaitGroup
	open := func(node int, ref plane.Ref) {
		blob, err := c.spaces[node].Open(b.Context(), ref)
		if err != nil {
			b.Error(err)
			return
		}
		_ = blob.Close()
	}
	for node := range c.spaces[1:] {
		for range 2 {
			moving.Go(func() { open(node+1, refs[0]) })
		}
	}
	moving.Wait()
	for _, ref := range refs[1:] {
		moving.Go(func() { open(0, ref) })
	}
	moving.Wait()
}

// bareTLS is connections whose other end sends as many bytes as it is asked for.
type bareTLS []*tls.Conn

func newBareTLS(b *testing.B, connections int) bareTLS {
	b.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	b.Cleanup(certified.Close)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13})
	require.NoError(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	window := noiseBytes(256 << 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					var size int64
					if _, err := fmt.Fscanln(conn, &size); err != nil {
						return
					}
					for left := size; left > 0; left -= int64(len(window)) {
						if _, err := conn.Write(window[:min(left, int64(len(window)))]); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	transport := certified.Client().Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = "example.com", nil
	var t bareTLS
	for range connections {
		conn, err := tls.Dial("tcp", listener.Addr().String(), config)
		require.NoError(b, err)
		b.Cleanup(func() { _ = conn.Close() })
		t = append(t, conn)
	}
	return t
}

// round copies over all connections at once, twice.
func (t bareTLS) round(b *testing.B, size int64) {
	for range 2 {
		var moving sync.WaitGroup
		for _, conn := range t {
			moving.Go(func() {
				_, _ = fmt.Fprintln(conn, size)
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, size), make([]byte, 256<<10)); err != nil || n != size {
					b.Error(n, err)
				}
			})
		}
		moving.Wait()
	}
}
