package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// train runs one job on a node of its own, from its first event to its result,
// and returns nil only if it SUCCEEDED. Nothing is started for a task that
// cannot be.
func (s *session) train(asked *messages.TrainTask, flags *nodeFlags) (err error) {
	t, err := task.Resolve(asked)
	if err != nil {
		return err
	}
	node, err := flags.node(t)
	if err != nil {
		return err
	}
	return s.follow(t, node, flags, func(ctx context.Context, c company) (actors.Submission, error) {
		return c.StartJob(ctx, t)
	})
}

// follow starts a node, has it begin a job, and watches that to its end.
func (s *session) follow(t *messages.TrainTask, node config.Node, flags *nodeFlags, begin func(context.Context, company) (actors.Submission, error)) (err error) {
	ctx, release := s.untilSignal()
	defer release()
	c, err := s.start(newLog(s.screen, flags.verbose), node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, warned, err := s.submit(ctx, c, t, begin)
	if err != nil {
		return err
	}
	result, err := s.watch(ctx, c, id, warned, t, flags)
	if fault.KindOf(err) == fault.Conflict { // it is another's by now
		return fault.New("troupe.run", fault.Conflict, "%w; this process stops", err)
	}
	if err != nil {
		return err
	}
	if err := s.printResult(id, t, result, c.Logs(id), flags.output); err != nil {
		return err
	}
	return endOf(id, result)
}

// endOf returns nil for a job that has SUCCEEDED, else how it ended.
func endOf(id string, result *messages.JobResult) error {
	if result.GetPhase() == messages.Phase_PHASE_SUCCEEDED {
		return nil
	}
	return &endedError{id: id, phase: result.GetPhase(), reason: wire.Error(result.GetFailure())}
}

// submit hands the job to the company, unless a signal has come.
func (s *session) submit(ctx context.Context, c company, t *messages.TrainTask, begin func(context.Context, company) (actors.Submission, error)) (id string, warned warnings, err error) {
	sub, err := begin(ctx, c)
	if ctx.Err() != nil && err != nil {
		return "", nil, &endedError{phase: messages.Phase_PHASE_STOPPED}
	}
	if err != nil {
		return "", nil, err
	}
	fmt.Fprintf(s.screen, "job %s: %s on %s\n", sub.ID, t.GetFunctionName(), t.GetDataset())
	return sub.ID, s.warnAll(sub.Warnings), nil
}

// watch shows the job until it has ended. When ctx ends, the job is told to
// stop, and watched to its end all the same.
func (s *session) watch(ctx context.Context, c company, id string, warned warnings, t *messages.TrainTask, flags *nodeFlags) (*messages.JobResult, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(stopped)
		err := c.StopJob(watching, id, context.Cause(ctx).Error())
		if kind := fault.KindOf(err); err != nil && watching.Err() == nil && kind != fault.Conflict && kind != fault.NotFound {
			fmt.Fprintf(s.screen, "troupe: cannot stop job %s: %v\n", id, err)
		}
	})
	defer func() {
		cancel()
		if !forget() {
			<-stopped
		}
	}()

	v := s.newViewer(id, t, warned, flags.verbose)
	result, err := c.WatchJob(watching, id, v.show)
	v.close()
	return result, err
}

// viewer shows a job to a person, event by event.
type viewer struct {
	session *session
	id      string
	warned  warnings
	seen    seen
	display display
}

func (s *session) newViewer(id string, t *messages.TrainTask, warned warnings, verbosity int) *viewer {
	return &viewer{session: s, id: id, warned: warned, seen: seen{}, display: s.newDisplay(t, verbosity)}
}

func (v *viewer) show(e *messages.JobEvent) {
	s := v.session
	if w := e.GetWarned(); w != nil {
		s.warn(v.warned, w.GetText())
	}
	if end := e.GetTrainingEnded(); end != nil {
		fmt.Fprintf(s.screen, "training ends early: %s\n", end.GetReason())
	}
	if text := v.seen.add(e); text != "" {
		fmt.Fprintf(s.screen, "job %s %s\n", v.id, text)
	}
	v.display.show(e)
}

func (v *viewer) close() { v.display.close() }

// warnings are those that were given: each is given once.
type warnings map[string]bool

// warnAll gives the warnings that came with a submission.
func (s *session) warnAll(texts []string) warnings {
	warned := warnings{}
	for _, text := range texts {
		s.warn(warned, text)
	}
	return warned
}

func (s *session) warn(warned warnings, text string) {
	if !warned[text] {
		warned[text] = true
		fmt.Fprintf(s.screen, "troupe: warning: %s\n", text)
	}
}
