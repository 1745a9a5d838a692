package train

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

const (
	maxConnections = 1024
	headerPatience = 10 * time.Second // for the head of a request
	idlePatience   = 2 * time.Minute  // of a connection without one
	closePatience  = 5 * time.Second  // for requests that are open at the end
	// linger is how long a job that has ended can still be asked how, should
	// nobody have been told so far.
	linger = 3 * time.Second
)

// Serve serves the job's handler on that port of loopback, 0 for any that is free,
// until the job has ended and somebody was told so, or nobody asks any more.
// Result and Err say how it ended. Errors: Conflict (somebody else listens there),
// Invalid (the port), Unavailable (there is no company, or it ended).
func (j *TrainJob) Serve(port int) error {
	l, err := Listen(port)
	if err != nil {
		return err
	}
	return j.ServeOn(context.Background(), l)
}

// Listen listens on that port of loopback, 0 for any that is free. Conflict:
// somebody else does; Invalid.
func Listen(port int) (net.Listener, error) {
	const op = "train.listen"
	if port < 0 || port > 65535 {
		return nil, fault.New(op, fault.Invalid, "port %d: give 0 to 65535", port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New(op, fault.Conflict, "listen on port %d: another process does: end it, or give another port", port)
	}
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "listen on port %d: %w", port, err)
	}
	return l, nil
}

// ServeOn is Serve on a listener, which it closes. When ctx ends the job is told
// to stop, for the reason that is the cause, and watched to its end; one that has
// no task yet ends at once, with Conflict.
func (j *TrainJob) ServeOn(ctx context.Context, l net.Listener) error {
	host, err := j.hosted()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	host.ServeJob(j.name(), "http://"+l.Addr().String())
	serving, end := context.WithCancelCause(context.Background())
	defer end(nil)
	server := &http.Server{
		Handler: j.GetHandler(), ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: 64 << 10,
		ErrorLog:    zap.NewStdLog(j.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))), // what clients get wrong is theirs
		BaseContext: func(net.Listener) context.Context { return serving },
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			end(fault.New("train.serve", fault.Unavailable, "%s: no connection is accepted any more: %w", l.Addr(), err))
		}
	}()
	result, err := j.toItsEnd(ctx, serving, host)
	j.finish(result, err)
	if result != nil && ctx.Err() == nil {
		j.awaitTold(ctx)
	}
	patience, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	end(nil) // of streams
	if server.Shutdown(patience) != nil {
		_ = server.Close()
	}
	<-served
	if result == nil {
		return err
	}
	return nil
}

// toItsEnd watches a basic job, which is stopped when ctx ends, as long as it is
// served.
func (j *TrainJob) toItsEnd(ctx, serving context.Context, host Standalone) (*messages.JobResult, error) {
	watching, cancel := context.WithCancelCause(serving)
	defer cancel(nil)
	stopped := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(stopped)
		if j.unbegun() {
			cancel(context.Cause(ctx))
			return
		}
		err := host.StopStoredJob(watching, j.name(), context.Cause(ctx).Error())
		if kind := fault.KindOf(err); err != nil && kind != fault.Conflict && kind != fault.NotFound {
			cancel(err)
		}
	})
	defer func() {
		cancel(nil)
		if !forget() {
			<-stopped
		}
	}()
	return j.await(watching)
}

// unbegun keeps a job that has not been accepted from being started any more, and
// reports whether it did.
func (j *TrainJob) unbegun() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase == accepted {
		return false
	}
	j.phase = starting // and so it stays
	return true
}

// awaitTold waits until somebody was told how the job ended, for a while.
func (j *TrainJob) awaitTold(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-j.told:
	case <-timer.C:
	case <-ctx.Done():
	}
}
