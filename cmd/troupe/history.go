package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// newHistoryCommand returns the verb for what jobs have done.
func newHistoryCommand(s *session) *cobra.Command {
	return newGroup("history", "Show, plot and forget what jobs have done", "  troupe history list\n  troupe history plot --id 01jcx5zq8w3f --out loss.svg",
		newHistoryGetCommand(s), newHistoryListCommand(s), newHistoryDeleteCommand(s), newHistoryPruneCommand(s), newHistoryPlotCommand(s))
}

// newHistoryGetCommand returns the verb that shows what a job has done.
func newHistoryGetCommand(s *session) *cobra.Command {
	flags, id, output := newPlaceFlags(s.Getenv), "", "table"
	cmd := &cobra.Command{
		Use:         "get --id ID",
		Short:       "Show what a job has done, epoch by epoch",
		Example:     "  troupe history get --id 01jcx5zq8w3f\n  troupe history get --id 01jcx5zq8w3f -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				v, err := b.Job(ctx, id)
				if err != nil {
					return err
				}
				if output == "json" {
					return s.printJSON(jobjson.NewHistory(v))
				}
				fmt.Fprintf(s.screen, "job %s: %s on %s, %s\n", id, v.GetTask().GetFunctionName(), v.GetTask().GetDataset(), jobjson.StateName(v.GetPhase()))
				return printList(s, output, epochsOf(v), "no epoch is complete", epochTable)
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	registerTable(cmd.Flags(), &output)
	flags.register(cmd.Flags())
	s.completePlace(cmd, "id", allJobs, flags)
	return cmd
}

// epochsOf returns the complete epochs of a job.
func epochsOf(v *messages.JobView) []*messages.EpochRecord {
	if epochs := v.GetEpochs(); len(epochs) > 0 {
		return epochs
	}
	return v.GetResult().GetEpochs()
}

func epochTable(epochs []*messages.EpochRecord) *table {
	t := newTable("EPOCH", "TRAIN-LOSS", "VAL-LOSS", "ACCURACY", "N", "ROUNDS", "SAMPLES", "TIME", "RETRIES", "LOST", "REJECTED")
	for _, e := range epochs {
		t.row(e.GetEpoch(), orDash("%.4f", measured(&e.TrainLoss)), orDash("%.4f", measured(e.ValidationLoss)), orDash("%.2f %%", measured(e.Accuracy)),
			e.GetParallelism(), e.GetRounds(), e.GetSamples(), seconds(e.GetDurationS()), e.GetRetries(), e.GetLostFunctions(), e.GetRejectedResults())
	}
	return t
}

// newHistoryListCommand returns the verb that lists all jobs.
func newHistoryListCommand(s *session) *cobra.Command {
	return newListCommand(s, "history", "jobs", "List all jobs, ended or not, the oldest first", historyTable, func(ctx context.Context, b backend) ([]jobjson.History, error) {
		views, err := b.AllJobs(ctx)
		var all []jobjson.History
		for _, v := range views {
			all = append(all, jobjson.NewHistory(v))
		}
		return all, err
	})
}

func historyTable(list []jobjson.History) *table {
	t := newTable("ID", "FUNCTION", "DATASET", "PHASE", "EPOCHS", "ACCURACY", "VAL-LOSS", "RUNNING", "SUBMITTED", "REASON")
	for _, h := range list {
		var loss *float64
		if h.Job.Result != nil {
			loss = h.Job.Result.ValidationLoss
		}
		why, _, _ := strings.Cut(orNone(h.Job.Reason), "\n")
		t.row(h.ID, h.Task.FunctionName, h.Task.Dataset, h.Job.Phase, len(h.Data.TrainLoss), orDash("%.1f %%", h.Job.Accuracy), orDash("%.3f", loss),
			spell(h.Job.RunningS), moment(h.Job.SubmittedMs), why)
	}
	return t
}

// newHistoryDeleteCommand returns the verb that forgets a job.
func newHistoryDeleteCommand(s *session) *cobra.Command {
	flags, id := newPlaceFlags(s.Getenv), ""
	cmd := &cobra.Command{
		Use:   "delete --id ID",
		Short: "Forget a job that has ended; its model stays",
		Long: `Forget a job that has ended: its history, logs, and what it could be resumed
from. Its model stays. One of troupe run that was killed can be forgotten too.`,
		Example:     "  troupe history delete --id 01jcx5zq8w3f",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				if err := b.DeleteJob(ctx, id); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "job %s forgotten\n", id)
				return nil
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	flags.register(cmd.Flags())
	s.completePlace(cmd, "id", endedJobs, flags)
	return cmd
}

// newHistoryPruneCommand returns the verb that forgets all jobs that have ended.
func newHistoryPruneCommand(s *session) *cobra.Command {
	flags, yes := newPlaceFlags(s.Getenv), false
	cmd := &cobra.Command{
		Use:         "prune",
		Short:       "Forget all jobs that have ended; their models stay",
		Example:     "  troupe history prune\n  troupe history prune --yes",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.at(flags, func(ctx context.Context, b backend) error {
				return s.forget(ctx, b, b.Place(), yes, "have ended", func(v *messages.JobView) bool { return v.GetResult() != nil })
			})
		},
	}
	registerYes(cmd, &yes)
	flags.register(cmd.Flags())
	return cmd
}
