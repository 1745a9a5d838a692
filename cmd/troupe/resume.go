package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// resume goes on with a job of the store, on n functions, or for 0 on as many
// as it had. One that has SUCCEEDED has its result shown again.
func (s *session) resume(id string, n uint32, flags *nodeFlags) error {
	ctx, release := s.untilSignal()
	stored, err := actors.FindJob(ctx, flags.store, id)
	stopped := ctx.Err() != nil
	release()
	if stopped {
		return &endedError{phase: messages.Phase_PHASE_STOPPED}
	}
	if err != nil {
		return err
	}
	s.warnAll(stored.Warnings)
	if result := stored.State.GetResult(); result.GetPhase() == messages.Phase_PHASE_SUCCEEDED {
		return s.printResult(stored.ID, stored.Task, result, "", flags.output)
	}
	node, err := flags.node(stored.Resumed(n, flags.slots))
	if err != nil {
		return err
	}
	t := stored.Resumed(n, node.Slots)
	return s.follow(t, node, flags, func(ctx context.Context, c company) (actors.Submission, error) {
		return c.ResumeJob(ctx, stored.ID, t)
	})
}

// checkResume refuses what says another job than the one that is to go on.
func checkResume(args []string, set *pflag.FlagSet) error {
	if len(args) > 0 {
		return fault.New("run.resume", fault.Invalid, "--resume goes on with a job as it was submitted, and was given the FUNCTION %q too: leave one of them out", args[0])
	}
	var fixed []string
	allowed := newNodeFlags(func(string) string { return "" })
	of := pflag.NewFlagSet("resume", pflag.ContinueOnError)
	allowed.registerAll(of)
	set.Visit(func(f *pflag.Flag) {
		if f.Name != "resume" && f.Name != "parallelism" && of.Lookup(f.Name) == nil {
			fixed = append(fixed, "--"+f.Name)
		}
	})
	if len(fixed) > 0 {
		slices.Sort(fixed)
		return fault.New("run.resume", fault.Invalid, "--resume goes on with a job as it was submitted: leave out %s (-p and the settings of the node may change)",
			strings.Join(fixed, ", "))
	}
	return nil
}
