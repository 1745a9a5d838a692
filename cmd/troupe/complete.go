package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// completionPatience is how long a person waits for a shell to complete a word.
const completionPatience = 2 * time.Second

// lister lists what a flag may be, with a remark behind a tab.
type lister func(ctx context.Context, b backend) ([]string, error)

// complete has shells complete a flag with what the server has.
func (s *session) complete(cmd *cobra.Command, flag string, list lister, server *remoteFlags) {
	completeFlag(cmd, flag, s.completion(list, cobra.ShellCompDirectiveNoFileComp, func(context.Context) (backend, error) {
		c, err := s.client(server)
		if err != nil {
			return nil, err
		}
		return remoteBackend{c}, nil
	}))
}

// completePlace is complete for a verb that works on a store, too.
func (s *session) completePlace(cmd *cobra.Command, flag string, list lister, place *placeFlags) {
	completeFlag(cmd, flag, s.completion(list, cobra.ShellCompDirectiveNoFileComp, func(ctx context.Context) (backend, error) { return s.open(ctx, place) }))
}

// completeRun completes what run takes: names of its store, and files.
func (s *session) completeRun(cmd *cobra.Command, node *nodeFlags) {
	open := func(ctx context.Context) (backend, error) { return openStore(ctx, node.store) }
	functions := s.completion(functionNames, cobra.ShellCompDirectiveDefault, open)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return functions(cmd, args, typed)
	}
	completeFlag(cmd, "dataset", s.completion(datasetNames, cobra.ShellCompDirectiveDefault, open))
	completeFlag(cmd, "init", s.completion(modelNames, cobra.ShellCompDirectiveDefault, open))
	completeFlag(cmd, "resume", s.completion(resumableJobs, cobra.ShellCompDirectiveNoFileComp, open))
}

// completeWords has shells complete each flag that is one of several words, of a
// verb and all below.
func completeWords(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(*value); ok && v.words != nil {
			completeFlag(cmd, f.Name, cobra.FixedCompletions(v.words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, verb := range cmd.Commands() {
		completeWords(verb)
	}
}

func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil { // there is no such flag, or it has one
		panic(err)
	}
}

// completion returns what completes a word with a list, and on request with
// files too.
func (s *session) completion(list lister, files cobra.ShellCompDirective, open func(context.Context) (backend, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
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
		return fitting, files
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

// resumableJobs are those that run may go on with.
func resumableJobs(ctx context.Context, b backend) ([]string, error) {
	names, err := jobNames(ctx, b, func(v *messages.JobView) bool { return v.GetPhase() != messages.Phase_PHASE_SUCCEEDED })
	return append([]string{"last\tthe newest that run began"}, names...), err
}

// jobNames lists jobs, the newest first: that is the one that is meant.
func jobNames(ctx context.Context, b backend, which func(*messages.JobView) bool) (names []string, err error) {
	views, err := b.AllJobs(ctx)
	for i := len(views) - 1; i >= 0; i-- {
		if v := views[i]; which(v) {
			names = append(names, v.GetId()+"\t"+v.GetTask().GetFunctionName()+" on "+v.GetTask().GetDataset()+", "+jobjson.StateName(v.GetPhase()))
		}
	}
	return names, err
}
