package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// program is the whole command: what main runs, and what tests run.
type program struct {
	env   env
	start starter
}

// Run runs one command line, without the program's name, and returns the exit
// code. Whatever goes wrong is one line on env.Err.
func (p *program) Run(args []string) (code int) {
	s := &session{env: p.env, start: p.start, screen: newScreen(p.env.Err), width: p.env.Columns(p.env.Out)}
	out := &output{under: p.env.Out}
	s.Out = out
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(s.screen, "troupe: this is a bug, please report it: %v\n%s", r, debug.Stack())
			code = exitBug
		}
	}()
	root := newRootCommand(s)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		err = out.failed // of help and completions
	}
	if err != nil {
		fmt.Fprintf(s.screen, "troupe: %v\n", err)
		if trace := fault.TraceOf(err); trace != "" {
			fmt.Fprintln(s.screen, strings.TrimRight(trace, "\n"))
		}
	}
	return exitCode(err)
}

// session is one run of the program: what the verbs share.
type session struct {
	env    // its Out is an output
	start  starter
	screen *screen // over env.Err
	width  int     // of the terminal that env.Out is, in columns; 0: it is none
}

// newRootCommand returns the tree of all verbs.
func newRootCommand(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Train neural networks with a company of actors",
		Long:          "Troupe spreads each epoch over many functions, averages what they learned, and\ngoes on while they come, go, crash, hang or return garbage.",
		Example:       "  troupe demo\n  troupe run mlp -d digits -e 10 -p 4",
		Annotations:   exits(exitDone, exitBug, exitInvalid),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return s.configure(cmd.Flags()) }
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.screen)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.New("troupe.flags", fault.Invalid, "%w; see %s --help", err, cmd.CommandPath())
	})
	root.SetUsageTemplate(fitted(root.UsageTemplate(), s.width) + exitsTemplate)
	root.AddCommand(
		newClusterCommand(s),
		newConfigCommand(s),
		newDatasetCommand(s),
		newDemoCommand(s),
		newEventsCommand(s),
		newFunctionCommand(s),
		newHistoryCommand(s),
		newInferCommand(s),
		newJobCommand(s),
		newLogsCommand(s),
		newModelCommand(s),
		newRunCommand(s),
		newServeCommand(s),
		newStacksCommand(s),
		newStoreCommand(s),
		newTaskCommand(s),
		newTrainCommand(s),
		newUpCommand(s),
		newVersionCommand(s),
	)
	root.SetHelpCommand(newHelpCommand())
	root.InitDefaultHelpCmd()
	addCompletionCommand(root)
	completeWords(root)
	return root
}

// noArguments refuses them.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fault.New("troupe.arguments", fault.Invalid, "%s takes no arguments, and was given %q; see %s --help", cmd.CommandPath(), args, cmd.CommandPath())
}

// unknownVerb names what was typed, what it may have meant, and where to look.
func unknownVerb(parent *cobra.Command, typed string) error {
	hint := fmt.Sprintf("see %s --help", parent.CommandPath())
	var verbs []string
	for _, verb := range parent.Commands() {
		if verb.IsAvailableCommand() {
			verbs = append(verbs, verb.Name())
		}
	}
	if near := config.Nearest(typed, verbs); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fault.New("troupe.verb", fault.Invalid, "there is no verb %q: %s", typed, hint)
}
