package actors

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/function"
)

// programs is the runtime of the users' Python programs. It looks for Python
// only once there is a program to run, so that nobody needs it for the rest.
type programs struct {
	catalog *function.Catalog
	dir     string // where their files lie on this machine
	config  python.Config

	mu     sync.Mutex // guards python, closed
	python *python.Runtime
	closed bool
}

var _ functions.Runtime = (*programs)(nil)

func newPrograms(catalog *function.Catalog, dir string, node config.Node, log func(python.Line), warn func(string)) *programs {
	return &programs{catalog: catalog, dir: filepath.Join(dir, "programs"), config: python.Config{
		Python: node.Python, Slots: node.Slots, Threads: node.Threads, MemoryLimit: node.MemoryLimit,
		IdleTimeout: node.IdleTimeout, Pin: !node.NoPin, GPUs: node.GPUs, Dir: dir, Log: log, Warn: warn,
	}}
}

// isPath reports whether a function is named by where it lies.
func isPath(name string) bool {
	return strings.HasSuffix(name, ".py") || strings.ContainsRune(name, filepath.Separator)
}

// find returns the program that a user named by its path, which is imported, or
// by its name in the store.
func (p *programs) find(ctx context.Context, name string) (function.Info, error) {
	if isPath(name) {
		return p.catalog.Import(ctx, name)
	}
	return p.catalog.Show(ctx, name)
}

// ready makes a version of a program known to the runtime. Unavailable where
// there is no Python for it.
func (p *programs) ready(ctx context.Context, name, version string, env map[string]string) error {
	key := host.FunctionKey(name, version, env)
	if p.Has(key) {
		return nil
	}
	path, err := p.catalog.Materialise(ctx, name, version, p.dir)
	if err != nil {
		return err
	}
	runtime, err := p.open()
	if err != nil {
		return err
	}
	if err := runtime.FindPython(); err != nil {
		return err
	}
	return runtime.Register(python.Program{Name: key, Title: name, Path: path, Version: version, Env: env})
}

// open returns the runtime, which the first program brings to life.
func (p *programs) open() (*python.Runtime, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if p.python == nil {
		runtime, err := python.New(p.config)
		if err != nil {
			return nil, err
		}
		p.python = runtime
	}
	return p.python, nil
}

func (p *programs) runtime() *python.Runtime {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.python
}

// Has implements functions.Runtime.
func (p *programs) Has(key string) bool {
	runtime := p.runtime()
	return runtime != nil && runtime.Has(key)
}

// Run implements functions.Runtime.
func (p *programs) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	runtime := p.runtime()
	if runtime == nil {
		return functions.Answer{}, fault.New("actors.run", fault.NotFound, "there is no program %q", inv.Function)
	}
	return runtime.Run(ctx, inv)
}

// Stacks implements functions.Tracer.
func (p *programs) Stacks(jobID string) map[int]string {
	runtime := p.runtime()
	if runtime == nil {
		return nil
	}
	return runtime.Stacks(jobID)
}

// Close implements functions.Runtime.
func (p *programs) Close() error {
	p.mu.Lock()
	runtime := p.python
	p.python, p.closed = nil, true
	p.mu.Unlock()
	if runtime == nil {
		return nil
	}
	return runtime.Close()
}
