package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// jobProcesses is what up has for jobs in processes of their own: how one is
// started, and an address of this machine at which each sees that the server lives.
// It answers nothing else and needs no token, whatever the server's address needs.
type jobProcesses struct {
	node    config.Node
	verbose int
	beacon  *http.Server // nil: there are no such processes
	address string
	done    chan struct{} // closed once the beacon has ended
	serves  chan struct{} // closed once jobs is set
	jobs    actors.JobsAt // where endpoints of remote functions reach jobs
}

// newJobProcesses opens it, where the node has jobs in processes. Unavailable.
func newJobProcesses(node config.Node, verbose int, log *zap.Logger) (*jobProcesses, error) {
	p := &jobProcesses{node: node, verbose: verbose, done: make(chan struct{}), serves: make(chan struct{})}
	if node.Jobs != config.JobsInProcesses {
		return p, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New("up.processes", fault.Unavailable, "listen for the processes of jobs: %w", err)
	}
	p.address = "http://" + l.Addr().String()
	p.beacon = &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() {
		defer close(p.done)
		if err := p.beacon.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("processes of jobs do not see any more that this server lives", zap.Error(err))
		}
	}()
	return p, nil
}

// Close ends it.
func (p *jobProcesses) Close() error {
	if p.beacon == nil {
		return nil
	}
	err := p.beacon.Close()
	<-p.done
	return err
}

// servesAt says where the server serves jobs. Once.
func (p *jobProcesses) servesAt(at actors.JobsAt) {
	p.jobs = at
	close(p.serves)
}

// command is how the process of a job is started: this program, even if its file
// has been replaced, with the settings of the node and nothing of the task.
// Programs are not bound to cores: those of several processes would share them.
func (p *jobProcesses) command(ctx context.Context, id string) ([]string, error) {
	select {
	case <-p.serves:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	n := p.node
	args := []string{
		"/proc/self/exe", "job", "--id", id, "--server", p.address, "--job-url", p.jobs.URL(id), "--job-authority", p.jobs.Fingerprint, "--store", n.Store, "--slots", strconv.Itoa(n.Slots),
		"--threads", strconv.Itoa(n.Threads), "--idle-timeout", n.IdleTimeout.String(), "--gpus", n.GPUs, "--no-pin",
	}
	if n.Python != "" {
		args = append(args, "--python", n.Python)
	}
	if n.MemoryLimit > 0 {
		args = append(args, "--memory-limit", strconv.FormatInt(n.MemoryLimit, 10))
	}
	if n.Isolate {
		args = append(args, "--isolate")
	}
	for range p.verbose {
		args = append(args, "-v")
	}
	return args, nil
}
