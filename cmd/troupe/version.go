package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what this binary was built from, as version -o json prints it.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" when it was not built from a repository
	Modified bool   `json:"modified"`
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
		Args:        cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if output == "json" {
				return json.NewEncoder(s.Out).Encode(v)
			}
			_, err := fmt.Fprintf(s.Out, "troupe %s (%s %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
	registerOutput(cmd.Flags(), &output)
	return cmd
}

// buildVersion reads what the linker recorded.
func buildVersion() version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}
