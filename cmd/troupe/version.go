package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; see the Makefile. Without that it is what the
// go command knows of the module.
var version string

// build says what this binary was built from, as version -o json prints it.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersionCommand returns the verb that says which build this is.
func newVersionCommand(s *session) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "Say which build this is",
		Example:     "  troupe version\n  troupe version -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output == "json" {
				return json.NewEncoder(s.Out).Encode(b)
			}
			_, err := fmt.Fprintf(s.Out, "troupe %s (%s %s)\n", b.Version, b.Go, b.Platform)
			return err
		},
	}
	registerOutput(cmd.Flags(), &output)
	return cmd
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	return b
}
