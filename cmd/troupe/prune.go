package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// newTaskPruneCommand returns the verb that forgets jobs that came to nothing.
func newTaskPruneCommand(s *session) *cobra.Command {
	server, yes := &remoteFlags{}, false
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Forget the jobs that were stopped or have failed",
		Long: `Forget the jobs that were stopped or have failed: their history, logs, and what
they could be resumed from. Jobs that run, wait or have SUCCEEDED stay; troupe
history prune forgets all that have ended.`,
		Example:     "  troupe task prune\n  troupe task prune --yes",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				return s.forget(ctx, c, c.Server(), yes, "stopped or failed", func(v *messages.JobView) bool {
					phase := v.GetResult().GetPhase()
					return phase == messages.Phase_PHASE_STOPPED || phase == messages.Phase_PHASE_FAILED
				})
			})
		},
	}
	registerYes(cmd, &yes)
	server.register(cmd.Flags())
	return cmd
}

func registerYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask")
}

// jobStore is where jobs can be looked at and forgotten.
type jobStore interface {
	AllJobs(ctx context.Context) ([]*messages.JobView, error)
	DeleteJob(ctx context.Context, id string) error
}

// forget deletes jobs that have ended in some way, if a person agrees.
func (s *session) forget(ctx context.Context, jobs jobStore, place string, yes bool, how string, which func(*messages.JobView) bool) error {
	all, err := jobs.AllJobs(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, v := range all {
		if which(v) {
			ids = append(ids, v.GetId())
		}
	}
	if len(ids) == 0 {
		fmt.Fprintf(s.screen, "no jobs to forget at %s\n", place)
		return nil
	}
	if err := s.confirm(ctx, yes, fmt.Sprintf("forget %s that %s, at %s", count(len(ids), "job"), how, place), "Models stay."); err != nil {
		return err
	}
	forgotten := 0
	for _, id := range ids {
		switch err := jobs.DeleteJob(ctx, id); {
		case err == nil:
			forgotten++
		case fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Conflict: // by another, or taken up again
		default:
			return err
		}
	}
	fmt.Fprintf(s.screen, "%s forgotten\n", count(forgotten, "job"))
	return nil
}

// confirm returns nil if yes was given, or a person at the terminal types it.
// Conflict: no; Invalid: there is nobody to ask.
func (s *session) confirm(ctx context.Context, yes bool, what, remark string) error {
	const op = "troupe.confirm"
	if yes {
		return nil
	}
	in, ok := s.In.(io.Writer) // as a file is
	if !ok || !s.IsTerminal(in) || !s.IsTerminal(s.Err) {
		return fault.New(op, fault.Invalid, "this would %s. %s There is no terminal to ask on: give --yes", what, remark)
	}
	fmt.Fprintf(s.screen, "%s%s? %s [y/N] ", strings.ToUpper(what[:1]), what[1:], remark)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.screen)
		return context.Cause(ctx)
	case a := <-answer:
		if a == "y" || a == "yes" {
			return nil
		}
		return fault.New(op, fault.Conflict, "nothing is done: that was no yes")
	}
}
