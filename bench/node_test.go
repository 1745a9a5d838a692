package bench_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/plane/remote"
	"github.com/troupe-ml/troupe/tensor"
)

// nodeVariable makes this test binary a node: its value is a nodeConfig.
const nodeVariable = "TROUPE_BENCH_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// nodeConfig is what a node is told at its start. Without an API it leads.
type nodeConfig struct{ Dir, API, Token string }

// nodeOrder is a line to a node: what it is to do. It answers each by a nodeReply.
type nodeOrder struct {
	Do   string // fill, open, add, merge, bare, clear, peak
	Key  string
	Size int64       // fill: floats; bare: bytes
	Refs []plane.Ref // open: side by side; add; merge
	Sum  plane.Ref   // merge: what Refs add up to; no key: they are merged themselves
	Of   []nodeReply // bare: what these nodes said of themselves; side by side
}

// nodeReply is a line of a node. The first one says who it is.
type nodeReply struct {
	Self, API, Token, Bare string
	Ref                    plane.Ref
	Sent                   int64   // peak: bytes of bodies to others, so far
	MB                     float64 // peak: the most resident memory so far
	CPU                    float64 // peak: seconds of processor time so far
	Err                    string
}

// benchNode is a process that is a node: of the cluster's connections and planes,
// without actors.
type benchNode struct {
	*cluster.Cluster
	id    *trust.Identity
	space *remote.Space
	sent  atomic.Int64

	mu   sync.Mutex // guards bare
	bare map[string]*tls.Conn
}

func runNode(text string) error {
	var c nodeConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	n, hello, err := startNode(c)
	if err != nil {
		return err
	}
	defer n.Close()
	defer n.space.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(hello); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var o nodeOrder
		if err := in.Decode(&o); err != nil {
			return nil //nolint:nilerr // its input has ended
		}
		var r nodeReply
		if err := n.obey(o, &r); err != nil {
			r.Err = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func startNode(c nodeConfig) (*benchNode, nodeReply, error) {
	n, hello := &benchNode{bare: map[string]*tls.Conn{}}, nodeReply{}
	var err error
	if c.API == "" {
		var a *trust.Authority
		if a, err = trust.OpenAuthority(c.Dir); err != nil {
			return nil, hello, err
		}
		if hello.Token, err = a.CreateToken("bench"); err != nil {
			return nil, hello, err
		}
		n.id, err = a.Lead("node", "head")
	} else {
		n.id, err = trust.Join(context.Background(), trust.Newcomer{
			Dir: c.Dir, Machine: filepath.Base(c.Dir), Token: c.Token, API: c.API, Protocol: cluster.Protocol, Version: "bench",
		})
	}
	if err != nil {
		return nil, hello, err
	}
	local, err := plane.OpenScratch(config.Scratch{}, n.id.Node(), nil)
	if err != nil {
		return nil, hello, err
	}
	planes := http.StripPrefix("/plane", remote.NewHandler(n.id.Node(), local))
	n.Cluster, err = cluster.Start(context.Background(), cluster.Config{
		Log: zap.NewNop(), Identity: n.id, Listen: "127.0.0.1:0", Version: "bench",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { planes.ServeHTTP(&counted{w, &n.sent}, r) }),
	})
	if err != nil {
		return nil, hello, err
	}
	n.space = remote.New(remote.Config{Local: local, Node: n.Self(), Idle: 1 << 30, Peer: func(node string) (*http.Client, string, error) {
		client, base, err := n.Client(node)
		return client, base + "/plane", err
	}})
	n.Announce()
	hello.Self = n.Self()
	if hello.Bare, err = n.serveBare(); err != nil {
		return nil, hello, err
	}
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, hello, err
	}
	hello.API = api.Addr().String()
	go func() {
		_ = http.Serve(api, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(trust.Point{Address: n.Address(), Protocol: cluster.Protocol, Version: "bench"})
		}))
	}()
	return n, hello, nil
}

func (n *benchNode) obey(o nodeOrder, r *nodeReply) (err error) {
	switch o.Do {
	case "fill":
		r.Ref, err = n.fill(o.Key, o.Size)
	case "open":
		err = n.open(o.Refs)
	case "add":
		r.Ref, err = n.add(o.Key, o.Refs)
	case "merge":
		r.Ref, err = n.merge(o.Key, o.Refs, o.Sum)
	case "bare":
		err = sideBySide(o.Of, func(of nodeReply) error { return n.copyBare(of.Self, of.Bare, o.Size) })
	case "clear":
		err = n.space.Remove(n.space.List("")...)
	case "peak":
		r.Sent, r.CPU = n.sent.Load(), processorTime()
		r.MB, err = peakResident()
	default:
		err = fmt.Errorf("no order %q", o.Do)
	}
	return err
}

// fill seals a model of so many f32.
func (n *benchNode) fill(key string, floats int64) (plane.Ref, error) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int64{floats}}})
	if err != nil {
		return plane.Ref{}, err
	}
	draft, err := n.space.Create(key, l.Size())
	if err != nil {
		return plane.Ref{}, err
	}
	defer draft.Abort()
	if err := l.WriteHeader(draft); err != nil {
		return plane.Ref{}, err
	}
	window := noiseBytes(1 << 20)
	for left := 4 * floats; left > 0; left -= int64(len(window)) {
		if _, err := draft.Write(window[:min(left, int64(len(window)))]); err != nil {
			return plane.Ref{}, err
		}
	}
	return draft.Seal()
}

// open has refs here, side by side.
func (n *benchNode) open(refs []plane.Ref) error {
	return sideBySide(refs, func(ref plane.Ref) error {
		blob, err := n.space.Open(context.Background(), ref)
		if err == nil {
			err = blob.Close()
		}
		return err
	})
}

func sideBySide[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var doing sync.WaitGroup
	for i, one := range all {
		doing.Go(func() { errs[i] = do(one) })
	}
	doing.Wait()
	return errors.Join(errs...)
}

// plan opens answers, as those of functions 0, 1, …, of a round of so many.
func (n *benchNode) plan(refs []plane.Ref) (p tensor.Plan, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	p.Functions = len(refs)
	for i, ref := range refs {
		blob, err := n.space.Open(context.Background(), ref)
		if err != nil {
			return p, done, err
		}
		open = append(open, blob)
		p.Answers = append(p.Answers, tensor.Answer{Function: i, Weight: 1, Source: tensor.Source{R: blob, Size: blob.Size()}})
	}
	return p, done, nil
}

// add adds up answers where they lie.
func (n *benchNode) add(key string, refs []plane.Ref) (plane.Ref, error) {
	p, done, err := n.plan(refs)
	defer done()
	if err != nil {
		return plane.Ref{}, err
	}
	for i := range p.Answers {
		p.Answers[i].Weight = 1 / float64(4*len(refs))
	}
	sum, err := tensor.NewSum(p)
	if err != nil {
		return plane.Ref{}, err
	}
	return n.write(key, sum.Size(), sum.Write)
}

// merge merges answers: as they are, or where sum is what they add up to, that.
func (n *benchNode) merge(key string, refs []plane.Ref, sum plane.Ref) (plane.Ref, error) {
	from := refs
	if sum.Key != "" {
		from = []plane.Ref{sum}
	}
	p, done, err := n.plan(from)
	defer done()
	if err != nil {
		return plane.Ref{}, err
	}
	if sum.Key != "" {
		s := tensor.Sum{Source: p.Answers[0].Source}
		for i := range refs {
			s.Answers = append(s.Answers, tensor.Answer{Function: i, Weight: 1})
		}
		p = tensor.Plan{Functions: len(refs), Sums: []tensor.Sum{s}}
	}
	m, err := tensor.NewMerge(p)
	if err != nil {
		return plane.Ref{}, err
	}
	return n.write(key, m.Size(), func(w io.Writer) error { return m.Write(w, nil) })
}

func (n *benchNode) write(key string, size int64, write func(io.Writer) error) (plane.Ref, error) {
	draft, err := n.space.Create(key, size)
	if err != nil {
		return plane.Ref{}, err
	}
	defer draft.Abort()
	if err := write(draft); err != nil {
		return plane.Ref{}, err
	}
	return draft.Seal()
}

// bareProtocol is that of connections whose other end sends as many bytes as it is
// asked for.
const bareProtocol = "bare"

// serveBare serves such connections.
func (n *benchNode) serveBare() (string, error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", n.id.ServerTLS(bareProtocol))
	if err != nil {
		return "", err
	}
	window := noiseBytes(256 << 10)
	go func() {
		for {
			conn, err := l.Accept()
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
	return l.Addr().String(), nil
}

// copyBare copies bytes of another node over bare TLS, from memory to nowhere.
func (n *benchNode) copyBare(node, address string, size int64) error {
	n.mu.Lock()
	conn := n.bare[address]
	n.mu.Unlock()
	if conn == nil {
		var err error
		if conn, err = tls.Dial("tcp", address, n.id.ClientTLS(node, bareProtocol)); err != nil {
			return err
		}
		n.mu.Lock()
		n.bare[address] = conn
		n.mu.Unlock()
	}
	if _, err := fmt.Fprintln(conn, size); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, size), make([]byte, 256<<10))
	if err == nil && got != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// peakResident is the most resident memory that this process has had, in MB.
func peakResident() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kB float64
	for line := range lines(text) {
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kB); err == nil {
			return kB * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("no VmHWM in %s", text)
}

// processorTime is what this process has taken, in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// child is a node's process, as the benchmark sees it.
type child struct {
	nodeReply
	in  *json.Encoder
	out *json.Decoder
}

// startNodes starts so many nodes, of which the first leads.
func startNodes(b *testing.B, count int) []*child {
	b.Helper()
	var all []*child
	for i := range count {
		config := nodeConfig{Dir: filepath.Join(b.TempDir(), fmt.Sprint("n", i))}
		require.NoError(b, os.Mkdir(config.Dir, 0o700))
		if i > 0 {
			config.API, config.Token = all[0].API, all[0].Token
		}
		text, err := json.Marshal(config)
		require.NoError(b, err)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(b, err)
		out, err := cmd.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, cmd.Start())
		b.Cleanup(func() {
			require.NoError(b, in.Close())
			require.NoError(b, cmd.Wait())
		})
		c := &child{in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}
		require.NoError(b, c.out.Decode(&c.nodeReply))
		all = append(all, c)
	}
	return all
}

// do has a node do something, and returns what it said once it has.
func (c *child) do(b *testing.B, o nodeOrder) nodeReply {
	var r nodeReply
	if err := c.in.Encode(o); err != nil {
		b.Error(err)
	} else if err := c.out.Decode(&r); err != nil {
		b.Error(err)
	} else if r.Err != "" {
		b.Error(o.Do, r.Err)
	}
	return r
}
