package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/internal/fault"
)

// newHelpCommand returns the verb that explains a verb. Unlike cobra's own it
// refuses one that does not exist.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "help [VERB]",
		Short:       "Explain a verb",
		Example:     "  troupe help run",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable),
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || about == cmd.Root() && len(rest) > 0 {
				return unknownVerb(cmd.Root(), args[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// addCompletionCommand adds cobra's verb that completes command lines, with
// what every verb of ours has.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Short = "Complete command lines in your shell"
	completion.Example = "  source <(troupe completion bash)"
	completion.Annotations = exits(exitDone, exitBug, exitInvalid, exitUnavailable)
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return fault.New("completion.shell", fault.Invalid, "there is no completion for %q; see troupe completion --help", args[0])
	}
	for _, shell := range completion.Commands() {
		shell.Example = fmt.Sprintf("  troupe completion %s", shell.Name())
		shell.Annotations = completion.Annotations
		shell.Args = noArguments
	}
}

// fitted has a template of cobra's break the lines of flags where a terminal
// ends. 0 columns: there is none.
func fitted(template string, columns int) string {
	return strings.ReplaceAll(template, ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", columns))
}
