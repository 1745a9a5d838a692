package actors

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Submission is a job that was accepted.
type Submission = train.Submission

// StartJob implements train.Company: it checks the task, finds the function and
// the data set (importing a file), and hands the task to the Scheduler.
func (c *Company) StartJob(ctx context.Context, asked *messages.TrainTask) (Submission, error) {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return Submission{}, err
	}
	if !c.runtime.Has(resolved.GetFunctionName()) {
		return Submission{}, c.unknownFunction(resolved.GetFunctionName())
	}
	if err := c.runtime.CheckArgs(resolved.GetFunctionName(), resolved.GetOptions().GetArgs()); err != nil {
		return Submission{}, err
	}
	info, err := c.datasets.Open(ctx, resolved.GetDataset(), dataset.Options{Seed: resolved.GetOptions().GetSeed()})
	if err != nil {
		return Submission{}, err
	}
	submitted := proto.CloneOf(resolved)
	submitted.DatasetName, submitted.DatasetDigest = info.Name, info.Digest
	submitted.TrainSamples, submitted.TestSamples = uint64(info.Train), uint64(info.Test)
	reply, err := ask[*messages.SubmitJobReply](ctx, c, c.tree.Scheduler, &messages.SubmitJob{Key: newID(), Task: submitted})
	if err != nil {
		return Submission{}, err
	}
	return Submission{
		ID: reply.GetJobId(), Warnings: slices.Concat(c.warnings, info.Warnings, reply.GetWarnings()),
	}, wire.Error(reply.GetFailure())
}

// StopJob ends a job as STOPPED; WatchJob tells when it has. NotFound;
// Conflict when it has ended.
func (c *Company) StopJob(ctx context.Context, id, reason string) error {
	reply, err := ask[*messages.StopJobReply](ctx, c, c.tree.Scheduler, &messages.StopJob{JobId: id, Reason: reason})
	if err != nil {
		return err
	}
	return wire.Error(reply.GetFailure())
}

// WatchJob implements train.Company.
func (c *Company) WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	events := newEventQueue()
	pid := c.system.Root.Spawn(WatcherProps(c.log, c.rim, c.tree.Journal, id, events.put))
	defer c.system.Root.Stop(pid)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		case <-events.ready:
		}
		for _, event := range events.take() {
			on(event)
			if ended := event.GetEnded(); ended != nil {
				return ended.GetResult(), nil
			}
		}
	}
}

func (c *Company) unknownFunction(name string) error {
	var known []string
	for _, f := range c.runtime.Functions() {
		known = append(known, f.Name)
	}
	return fault.New("actors.start", fault.NotFound, "there is no function %q; there are %s", name, strings.Join(known, ", "))
}
