package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/function"
)

// served is the function that an endpoint runs.
type served struct {
	name    string
	runtime functions.Runtime
	key     func(env map[string]string) (string, error) // see endpoint.Config
}

// served finds what the flags name, and has it ready to run: what is wrong with
// it shows before anybody calls. Its files lie in dir.
func (s *session) served(ctx context.Context, flags *serveFlags, node config.Node, dir string) (*served, error) {
	if flags.function != "" {
		return servedNative(flags.function)
	}
	// What lies there now is what is run, also when it changes meanwhile.
	catalog := function.New(store.NewMem())
	info, err := catalog.Import(ctx, flags.code)
	if err != nil {
		return nil, err
	}
	path, err := catalog.Materialise(ctx, info.Name, info.Version, filepath.Join(dir, "programs"))
	if err != nil {
		return nil, err
	}
	runtime, err := python.New(python.Config{
		Python: node.Python, Slots: node.Slots, Threads: node.Threads, MemoryLimit: node.MemoryLimit, IdleTimeout: node.IdleTimeout,
		Pin: !node.NoPin, GPUs: node.GPUs, Dir: dir, Log: s.printed, Warn: s.tell,
	})
	if err != nil {
		return nil, err
	}
	if err := runtime.FindPython(); err != nil {
		return nil, err
	}
	key := func(env map[string]string) (string, error) {
		key := host.FunctionKey(info.Name, info.Version, env)
		return key, runtime.Register(python.Program{Name: key, Title: info.Name, Path: path, Version: info.Version, Env: env})
	}
	return &served{name: info.Name, runtime: runtime, key: key}, nil
}

func servedNative(name string) (*served, error) {
	runtime, err := native.New()
	if err != nil {
		return nil, err
	}
	if !runtime.Has(name) {
		return nil, fault.New("serve.function", fault.NotFound, "there is no built-in function %q: there are %s", name, strings.Join(runtime.Names(), ", "))
	}
	key := func(env map[string]string) (string, error) {
		if len(env) > 0 {
			return "", fault.New("serve.function", fault.Invalid, "env: %q is a Go function and has no process of its own: leave --env out", name)
		}
		return name, nil
	}
	return &served{name: name, runtime: runtime, key: key}, nil
}

// printed shows a line that a program printed.
func (s *session) printed(l python.Line) { fmt.Fprintf(s.screen, "%d| %s\n", l.Index, l.Text) }
