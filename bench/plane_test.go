package bench_test

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-ml/troupe/plane"
)

// BenchmarkPlane has a model go to all nodes but the first, which has it, and an
// answer come back from each, every node a process; beside it the same bytes are
// copied over bare TLS between the same processes, from memory to nowhere.
func BenchmarkPlane(b *testing.B) {
	for _, nodes := range []int{2, 3} {
		for _, megabytes := range []int64{1, 10, 100, 600} {
			b.Run(fmt.Sprintf("nodes=%d/model=%dMB", nodes, megabytes), func(b *testing.B) {
				benchmarkPlane(b, nodes, megabytes*1e6/4)
			})
		}
	}
}

func benchmarkPlane(b *testing.B, count int, floats int64) {
	nodes := startNodes(b, count)
	var ours, theirs, oursCPU, theirsCPU []float64
	size := int64(0)
	spent := func(do func()) float64 { // by all nodes
		before := processor(b, nodes)
		do()
		return processor(b, nodes) - before
	}
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		refs := make([]plane.Ref, count) // the model, and the answers of the others
		for i, n := range nodes {
			refs[i] = n.do(b, nodeOrder{Do: "fill", Key: fmt.Sprintf("j/1/%d/%d", round, i), Size: floats}).Ref
		}
		size = refs[0].Bytes
		oursCPU = append(oursCPU, spent(func() {
			b.StartTimer()
			ours = append(ours, seconds(func() {
				each(nodes[1:], func(n *child) { n.do(b, nodeOrder{Do: "open", Refs: []plane.Ref{refs[0], refs[0]}}) }) // two slots
				nodes[0].do(b, nodeOrder{Do: "open", Refs: refs[1:]})
			}))
			b.StopTimer()
		}))
		theirsCPU = append(theirsCPU, spent(func() { theirs = append(theirs, seconds(func() { copyBare(b, nodes, size) })) }))
		each(nodes, func(n *child) { n.do(b, nodeOrder{Do: "clear"}) })
		b.StartTimer()
	}
	b.StopTimer()
	sent, most := int64(0), 0.0
	for i, n := range nodes {
		r := n.do(b, nodeOrder{Do: "peak"})
		sent += r.Sent
		if most = max(most, r.MB); i == 0 {
			b.ReportMetric(r.MB, "MB-rss-job")
			most = 0
		}
	}
	b.ReportMetric(most, "MB-rss-node")
	b.ReportMetric(float64(sent)/float64(len(ours))/float64(count-1)/1e6, "MB/round-node")
	b.ReportMetric(median(ours), "s/round")
	b.ReportMetric(median(theirs)/median(ours), "of-tls")
	b.ReportMetric(mean(theirsCPU)/mean(oursCPU), "of-tls-cpu")
}

// copyBare copies as many bytes to every node but the first at once, and then back.
func copyBare(b *testing.B, nodes []*child, size int64) {
	head := nodes[0]
	each(nodes[1:], func(n *child) { n.do(b, nodeOrder{Do: "bare", Of: []nodeReply{head.nodeReply}, Size: size}) })
	back := nodeOrder{Do: "bare", Size: size}
	for _, n := range nodes[1:] {
		back.Of = append(back.Of, n.nodeReply)
	}
	head.do(b, back)
}

// BenchmarkSums merges the answers of four functions of another node: as they are,
// and added up there.
func BenchmarkSums(b *testing.B) {
	for _, megabytes := range []int64{1, 10, 100} {
		b.Run(fmt.Sprintf("model=%dMB", megabytes), func(b *testing.B) {
			nodes := startNodes(b, 2)
			var plain, summed []float64
			var size, sum int64
			for round := 0; b.Loop(); round++ {
				b.StopTimer()
				key := func(name string) string { return fmt.Sprintf("j/1/%d/%s", round, name) }
				refs := make([]plane.Ref, 4)
				for i := range refs {
					refs[i] = nodes[1].do(b, nodeOrder{Do: "fill", Key: key(fmt.Sprint(i)), Size: megabytes * 1e6 / 4}).Ref
				}
				merge := nodeOrder{Do: "merge", Refs: refs, Key: key("summed")}
				b.StartTimer()
				summed = append(summed, seconds(func() {
					merge.Sum = nodes[1].do(b, nodeOrder{Do: "add", Key: key("sum"), Refs: refs}).Ref
					nodes[0].do(b, merge)
				}))
				b.StopTimer()
				size, sum = refs[0].Bytes*int64(len(refs)), merge.Sum.Bytes
				merge.Sum, merge.Key = plane.Ref{}, key("plain")
				plain = append(plain, seconds(func() {
					nodes[0].do(b, nodeOrder{Do: "open", Refs: refs}) // side by side
					nodes[0].do(b, merge)
				}))
				each(nodes, func(n *child) { n.do(b, nodeOrder{Do: "clear"}) })
				b.StartTimer()
			}
			b.ReportMetric(float64(sum)/float64(size), "of-bytes")
			b.ReportMetric(median(summed), "s/round")
			b.ReportMetric(median(plain)/median(summed), "of-plain")
		})
	}
}

// processor is what all nodes have taken of it, in seconds.
func processor(b *testing.B, nodes []*child) (sum float64) {
	for _, n := range nodes {
		sum += n.do(b, nodeOrder{Do: "peak"}).CPU
	}
	return sum
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// each does something with all nodes at once.
func each(nodes []*child, do func(*child)) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { do(n) })
	}
	all.Wait()
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

func noiseBytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*i>>5) & 0x3f // as f32 all are finite
	}
	return p
}

func lines(text []byte) iter.Seq[string] { return strings.Lines(string(text)) }
