package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/messages"
)

// completionPatience is how long a person waits for a shell to complete a word.
const completionPatience = 2 * time.Second

// lister lists what a flag may be, with a remark behind a tab.
type lister func(ctx context.Context, b backend) ([]string, error)

// complete has shells complete a flag with what the server has.
func (s *session) complete(cmd *cobra.Command, flag string, list lister, server *remoteFlags) {
	s.completeFrom(cmd, flag, list, func(context.Context) (backend, error) {
		c, err := s.client(server)
		if err != nil {
			return nil, err
		}
		return remoteBackend{c}, nil
	})
}

// completePlace is complete for a verb that works on a store, too.
func (s *session) completePlace(cmd *cobra.Command, flag string, list lister, place *placeFlags) {
	s.completeFrom(cmd, flag, list, func(ctx context.Context) (backend, error) { return s.open(ctx, place) })
}

func (s *session) completeFrom(cmd *cobra.Command, flag string, list lister, open func(context.Context) (backend, error)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if s.configure(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
		defer cancel()
		b, err := open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer b.Close()
		all, err := list(ctx, b)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var fitting []string
		for _, word := range all {
			if strings.HasPrefix(word, typed) {
				fitting = append(fitting, word)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // there is no such flag
		panic(err)
	}
}

func functionNames(ctx context.Context, b backend) (names []string, err error) {
	functions, err := b.Functions(ctx)
	for _, f := range functions {
		names = append(names, f.Name+"\t"+f.Runtime)
	}
	return names, err
}

func datasetNames(ctx context.Context, b backend) (names []string, err error) {
	datasets, err := b.Datasets(ctx)
	for _, d := range datasets {
		names = append(names, d.Name+"\t"+count(int(d.TrainSetSize), "sample"))
	}
	return names, err
}

func modelNames(ctx context.Context, b backend) (names []string, err error) {
	models, err := b.Models(ctx)
	for _, m := range models {
		names = append(names, m.ID+"\t"+m.Function+" on "+m.Dataset)
	}
	return names, err
}

func allJobs(ctx context.Context, b backend) ([]string, error) {
	return jobNames(ctx, b, func(*messages.JobView) bool { return true })
}

func runningJobs(ctx context.Context, b backend) ([]string, error) {
	return jobNames(ctx, b, func(v *messages.JobView) bool { return v.GetResult() == nil })
}

func endedJobs(ctx context.Context, b backend) ([]string, error) {
	return jobNames(ctx, b, func(v *messages.JobView) bool { return v.GetResult() != nil })
}

// jobNames lists jobs, the newest first: that is the one that is meant.
func jobNames(ctx context.Context, b backend, which func(*messages.JobView) bool) (names []string, err error) {
	views, err := b.AllJobs(ctx)
	for i := len(views) - 1; i >= 0; i-- {
		if v := views[i]; which(v) {
			names = append(names, v.GetId()+"\t"+v.GetTask().GetFunctionName()+" on "+v.GetTask().GetDataset()+", "+stateName(v.GetPhase()))
		}
	}
	return names, err
}
