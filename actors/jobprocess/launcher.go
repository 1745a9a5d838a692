package jobprocess

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

const (
	listenFor = 30 * time.Second // for a process to say where it listens, on a busy machine
	killFor   = 5 * time.Second  // for a process to be gone that was killed
	readFor   = 2 * time.Second  // for what a process sent that is gone
)

// Launcher starts processes of jobs, which die with this one, and knows which are
// there. It is safe for concurrent use.
type Launcher struct {
	log     *zap.Logger
	command Command
	swept   func() // removes what killed processes have left

	spawner *child.Spawner
	close   func() error   // once
	proxy   http.Handler   // to what is there
	tasks   sync.WaitGroup // watches over what it started

	mu     sync.Mutex // guards the rest
	there  map[string]map[*alone]bool
	closed bool
}

// Command returns the program, and its arguments, that runs a job in a process of
// its own; --port is added. The process prints a line with its URL. The program's
// name among its arguments is that of this one. It may be called before all can be
// known, and then waits.
type Command func(ctx context.Context, id string) ([]string, error)

// NewLauncher returns one, which Close ends. Swept is called when a process is gone,
// to remove what it has left.
func NewLauncher(log *zap.Logger, command Command, swept func()) *Launcher {
	l := &Launcher{log: log, command: command, swept: swept, spawner: child.NewSpawner(), there: map[string]map[*alone]bool{}}
	l.close, l.proxy = sync.OnceValue(l.shutdown), l.newProxy()
	return l
}

// alone is the process of a job; a Process.
type alone struct {
	id       string
	from     uint64 // the incarnation that it begins
	watch    Watch
	proc     *child.Process
	output   *child.Lines
	listens  chan string // gets its URL
	client   *client
	follow   sync.Once
	followed sync.WaitGroup
}

var _ Process = (*alone)(nil)

// Launch implements the function type of that name. Invalid: there is no such
// program; Unavailable: it ends before it listens, or does not.
func (l *Launcher) Launch(ctx context.Context, job *messages.JobRef, watch Watch) (Process, error) {
	command, err := l.command(ctx, job.GetId())
	if err != nil {
		return nil, err
	}
	p, err := l.spawn(command, job, watch)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(listenFor)
	defer timer.Stop()
	select {
	case url := <-p.listens:
		l.mu.Lock()
		p.client = newClient(p.id, url)
		l.mu.Unlock()
		l.tasks.Go(func() { l.attend(ctx, p) })
		return p, nil
	case <-ctx.Done():
		err = fault.New("jobprocess.launch", fault.Unavailable, "start the job's process: %w", context.Cause(ctx))
	case <-timer.C:
		err = fault.New("jobprocess.launch", fault.Unavailable, "the job's process did not say in %v where it listens%s", listenFor, p.output.LastWords())
	case <-p.proc.Gone:
		err = fault.New("jobprocess.launch", fault.Unavailable, "the job's process %s before it listened%s", p.proc.Ending(), p.output.LastWords())
	}
	p.Kill()
	l.forget(p)
	return nil, err
}

// spawn starts a process.
func (l *Launcher) spawn(command []string, job *messages.JobRef, watch Watch) (*alone, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fault.New("jobprocess.launch", fault.Unavailable, "this node is being closed")
	}
	printed, print, err := os.Pipe()
	if err != nil {
		return nil, fault.New("jobprocess.launch", fault.Unavailable, "start the job's process: %w", err)
	}
	defer func() { _ = print.Close() }()
	p := &alone{id: job.GetId(), from: job.GetIncarnation(), watch: watch, listens: make(chan string, 1)}
	cmd := exec.Command(command[0])
	cmd.Args = slices.Concat(os.Args[:1], command[1:], []string{"--port", "0"})
	cmd.Stdout, cmd.Stderr = print, print
	l.tasks.Add(2)
	if p.output, err = child.ReadLines(printed, child.Line{JobID: p.id}, l.hear(p), l.tasks.Done); err != nil {
		l.tasks.Add(-2)
		_ = printed.Close()
		return nil, fault.New("jobprocess.launch", fault.Unavailable, "start the job's process: %w", err)
	}
	if err := l.spawner.Start(cmd); err != nil {
		l.tasks.Done()
		_ = printed.Close()
		return nil, fault.New("jobprocess.launch", kindOf(err), "start the job's process: %w", err)
	}
	p.proc = child.WatchChild(cmd, l.tasks.Done)
	if l.there[p.id] == nil {
		l.there[p.id] = map[*alone]bool{}
	}
	l.there[p.id][p] = true
	return p, nil
}

// kindOf says whether it can help to start a program again that was not started.
func kindOf(err error) fault.Kind {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
		return fault.Invalid
	}
	return fault.Unavailable
}

// hear takes what a process prints: where it listens, and what is for the log.
func (l *Launcher) hear(p *alone) func(child.Line) {
	log := l.log.With(zap.String("job_id", p.id))
	return func(line child.Line) {
		log.Info("the job's process says", zap.String("text", line.Text))
		if url := strings.TrimSpace(line.Text); strings.HasPrefix(url, "http://") {
			select {
			case p.listens <- url:
			default: // it has said so before
			}
		}
	}
}

// attend sees a process to its end, which ctx brings about.
func (l *Launcher) attend(ctx context.Context, p *alone) {
	stop := context.AfterFunc(ctx, p.proc.Kill)
	defer stop()
	<-p.proc.Gone
	how := p.proc.Ending() + p.output.LastWords()
	p.client.close()
	p.follow.Do(func() {}) // there is nothing to follow any more
	p.followed.Wait()
	l.forget(p)
	p.watch.Exited(how)
}

// forget takes in that a process is gone.
func (l *Launcher) forget(p *alone) {
	p.output.Close()
	l.swept()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.there[p.id], p)
	if len(l.there[p.id]) == 0 {
		delete(l.there, p.id)
	}
}

// Stacks asks the process of a job where its functions are; false: there is none,
// as where the launcher is nil.
func (l *Launcher) Stacks(ctx context.Context, id string) (text string, there bool, err error) {
	if l == nil {
		return "", false, nil
	}
	c := l.clientOf(id)
	if c == nil {
		return "", false, nil
	}
	text, err = c.stacks(ctx)
	return text, true, err
}

// End kills what is there of a job and returns once it is gone.
func (l *Launcher) End(id string) {
	for _, p := range l.of(id) {
		p.Kill()
	}
}

func (l *Launcher) of(id string) []*alone {
	l.mu.Lock()
	defer l.mu.Unlock()
	var there []*alone
	for p := range l.there[id] {
		there = append(there, p)
	}
	return there
}

// Close ends all processes and returns once they are gone; for nil it does nothing.
// Unavailable: they do not go.
func (l *Launcher) Close() error {
	if l == nil {
		return nil
	}
	return l.close()
}

func (l *Launcher) shutdown() error {
	l.mu.Lock()
	l.closed = true
	for _, processes := range l.there {
		for p := range processes {
			p.proc.Kill()
		}
	}
	l.mu.Unlock()
	if !l.spawner.CloseAfter(&l.tasks, killFor) {
		return fault.New("jobprocess.close", fault.Unavailable, "processes of jobs are not gone %v after they were killed", killFor)
	}
	return nil
}

// Start implements Process. What happens there is followed from then on.
func (p *alone) Start(ctx context.Context, task *messages.TrainTask, size Size) error {
	if err := p.client.start(ctx, task, size); err != nil {
		return p.explain(err)
	}
	p.follow.Do(func() {
		following, cancel := context.WithCancel(context.Background())
		p.followed.Go(func() {
			defer cancel()
			p.client.follow(following, p.proc.Gone, p.from, p.watch.Events)
		})
		p.followed.Go(func() {
			<-p.proc.Gone
			timer := time.AfterFunc(readFor, cancel)
			<-following.Done()
			timer.Stop()
		})
	})
	return nil
}

// explain prefers how the process ended to what came of it.
func (p *alone) explain(err error) error {
	if fault.KindOf(err) != fault.Unavailable {
		return err
	}
	p.proc.Await(time.Second)
	if p.proc.Alive() {
		return err
	}
	return fault.New("jobprocess.ask", fault.Unavailable, "its process %s%s", p.proc.Ending(), p.output.LastWords())
}

// Resize implements Process.
func (p *alone) Resize(ctx context.Context, size Size) error { return p.client.resize(ctx, size) }

// Stop implements Process.
func (p *alone) Stop(ctx context.Context, reason string) error { return p.client.stop(ctx, reason) }

// Check implements Process.
func (p *alone) Check(ctx context.Context) (busy uint32, err error) { return p.client.check(ctx) }

// Kill implements Process.
func (p *alone) Kill() { p.proc.End(killFor) }
