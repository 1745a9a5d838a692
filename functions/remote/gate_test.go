package remote_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
)

// leased is a thing of the caller's that nobody may touch once Run has returned.
type leased struct {
	over    atomic.Bool
	touched atomic.Bool // though it is over
}

func (l *leased) touch() {
	if l.over.Load() {
		l.touched.Store(true)
	}
}

type leasedInput struct {
	*leased
	io.ReaderAt
}

func (i leasedInput) ReadAt(p []byte, off int64) (int, error) {
	i.touch()
	return i.ReaderAt.ReadAt(p, off)
}

type leasedOutput struct {
	*leased
	functions.Buffer
	w io.Writer
}

func (o *leasedOutput) Create(size int64) (w io.Writer, err error) {
	o.touch()
	o.w, err = o.Buffer.Create(size)
	return o, err
}

func (o *leasedOutput) Write(p []byte) (int, error) {
	o.touch()
	return o.w.Write(p)
}

// Many attempts at once, a part of which is cancelled at any moment, do not touch
// what they were given once Run has returned; those that end well give the same
// bits.
func TestNothingIsTouchedAfterRun(t *testing.T) {
	at, err := native.New()
	require.NoError(t, err)
	defer at.Close()
	var leases sync.Map
	t.Cleanup(func() {
		leases.Range(func(lease, _ any) bool {
			if lease.(*leased).touched.Load() {
				t.Error("touched after Run")
			}
			return true
		})
	})
	r := serving(t, at, "mlp")
	inv, _, _ := training(t)
	inv.Function, inv.Args, inv.Env, inv.Optimizer = "mlp", nil, nil, functions.Input{}
	init := inv
	init.Task, init.Positions, init.OptimizerOut = functions.Init, nil, nil
	model := &functions.Buffer{}
	init.ModelOut = model
	_, err = r.Run(t.Context(), init)
	require.NoError(t, err)
	inv.Model = model.Input()

	var first atomic.Pointer[leasedOutput]
	var work sync.WaitGroup
	for g := range 4 {
		rng := rand.New(rand.NewPCG(1, uint64(g)))
		work.Go(func() {
			for n := range 20 {
				lease := &leased{}
				leases.Store(lease, true)
				mine := inv
				mine.Index, mine.Attempt = g, n
				mine.Model.R = leasedInput{lease, inv.Model.R}
				mine.Data.X.R = leasedInput{lease, inv.Data.X.R}
				out, state := &leasedOutput{leased: lease}, &leasedOutput{leased: lease}
				mine.ModelOut, mine.OptimizerOut = out, state
				ctx, cancel := context.WithCancel(context.Background())
				if n%2 == 1 {
					time.AfterFunc(time.Duration(rng.IntN(8000))*time.Microsecond, cancel)
				}
				_, err := r.Run(ctx, mine)
				lease.over.Store(true)
				cancelled := ctx.Err() != nil
				cancel()
				switch {
				case err == nil && !first.CompareAndSwap(nil, out):
					if string(first.Load().Bytes()) != string(out.Bytes()) {
						t.Error("another model")
					}
				case err != nil && n%2 == 0:
					t.Errorf("attempt %d of %d: %v", n, g, err)
				case err != nil && !cancelled:
					t.Errorf("attempt %d of %d, which was not cancelled: %v", n, g, err)
				}
			}
		})
	}
	work.Wait()
}

// A download that is on its way when its attempt ends is cut off: what it reads
// belongs to Run's caller again.
func TestADownloadEndsWithItsAttempt(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	lease := &leased{}
	inv.Model = sparse(t, 64<<20)
	inv.Model.R = leasedInput{lease, inv.Model.R}
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.runIn(ctx, inv)
	c := <-s.calls
	conn, err := net.Dial("tcp", s.exchange.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /jobs/%s/model HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", job, c.token)
	require.NoError(t, err)
	require.Contains(t, firstLine(t, conn), "200")
	cancel()
	_, err = ended()
	require.ErrorIs(t, err, context.Canceled)
	lease.over.Store(true)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := io.Copy(io.Discard, conn)
	require.NoError(t, err, "the connection is closed")
	require.Less(t, got, inv.Model.Size)
	require.False(t, lease.touched.Load())
}
