package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

// newRuntime returns a remote runtime with all that a job has.
func newRuntime(t testing.TB) *remote.Runtime {
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	loopback := remote.NewLoopback(exchange)
	runtime := remote.New(remote.Config{Exchange: exchange, URL: loopback.URL})
	t.Cleanup(func() {
		require.NoError(t, runtime.Close())
		require.NoError(t, loopback.Close())
	})
	return runtime
}

func TestEndpointsConform(t *testing.T) {
	for _, mode := range []string{"well", "slow", "dies", "answers garbage", "answers twice"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pair := &pair{t: t}
			for i := range pair.all {
				pair.all[i] = start(t, mode, "")
			}
			t.Cleanup(pair.end)
			functionstest.Run(t, func(t *testing.T) functionstest.Subject {
				runtime := newRuntime(t)
				for _, function := range []string{"mlp", "raises"} {
					require.NoError(t, runtime.Register(function, pair.all[0].url+"/"+function, pair.all[1].url+"/"+function))
				}
				return functionstest.Subject{Runtime: &patient{runtime, pair}, Function: "mlp", Raises: "raises"}
			})
		})
	}
}

// pair is two endpoints, of which those that die are started again.
type pair struct {
	t   *testing.T
	mu  sync.Mutex // guards all
	all [2]*process
}

func (p *pair) revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, one := range p.all {
		select {
		case <-one.gone:
			p.all[i] = start(p.t, one.mode, one.port())
		default:
		}
	}
}

func (p *pair) end() {
	for _, one := range p.all {
		one.end()
	}
}

// patient tries a failed attempt again, as a job does.
type patient struct {
	*remote.Runtime
	pair *pair
}

// Run implements functions.Runtime.
func (p *patient) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	out, state := inv.ModelOut, inv.OptimizerOut
	for try := 1; ; try++ {
		model, optimizer := &functions.Buffer{}, &functions.Buffer{}
		if out != nil {
			inv.ModelOut = model
		}
		if state != nil {
			inv.OptimizerOut = optimizer
		}
		answer, err := p.Runtime.Run(ctx, inv)
		if fault.KindOf(err) == fault.Unavailable && ctx.Err() == nil && !inv.Sabotage.Kill && try < 200 && p.pair.all[0].mode != "well" {
			p.pair.revive()
			inv.Attempt++
			continue
		}
		if err != nil {
			return answer, err
		}
		if out != nil {
			err = copyTo(out, model)
		}
		if err == nil && answer.HasOptimizer {
			err = copyTo(state, optimizer)
		}
		if err != nil {
			return functions.Answer{}, err
		}
		return answer, nil
	}
}

func copyTo(out functions.Output, b *functions.Buffer) error {
	w, err := out.Create(int64(len(b.Bytes())))
	if err != nil {
		return err
	}
	if n, err := w.Write(b.Bytes()); err != nil || n != len(b.Bytes()) {
		return fmt.Errorf("%d of %d bytes: %w", n, len(b.Bytes()), err)
	}
	return nil
}
