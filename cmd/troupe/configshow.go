package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/config"
)

// newConfigCommand returns the verb for what is set.
func newConfigCommand(s *session) *cobra.Command {
	return newGroup("config", "Show what is set, and by what", "  troupe config show", newConfigShowCommand(s))
}

// settingRow is a setting, as -o json prints it.
type settingRow struct {
	Key   string  `json:"key"`
	Value *string `json:"value"` // null: see From
	From  string  `json:"from"`
}

// newConfigShowCommand returns the verb that shows all settings.
func newConfigShowCommand(s *session) *cobra.Command {
	server, node, output := &remoteFlags{}, newNodeFlags(s.Getenv), "table"
	web, serving := config.DefaultAPI(), config.DefaultNode()
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show each setting, and where it comes from",
		Long: `Show each setting, and where it comes from: the file, a line for each, such as
"slots: 8"; else the environment, such as TROUPE_SLOTS=8, which counts more;
else a flag, such as --slots 8, which counts most. The file is
$XDG_CONFIG_HOME/troupe/config.yaml, or ~/.config/troupe/config.yaml.`,
		Example:     "  troupe config show\n  troupe config show -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := config.Load(s.Getenv)
			if err != nil {
				return err
			}
			rows := settingRows(settings, cmd.Flags(), s.Getenv)
			if output == "table" && settings.File() != "" {
				fmt.Fprintf(s.screen, "file: %s\n", settings.File())
			}
			return printList(s, output, rows, "no settings", settingTable)
		},
	}
	set := cmd.Flags()
	server.register(set)
	registerServing(set, &web, &serving)
	node.registerAllSettings(set)
	registerTable(set, &output)
	return cmd
}

// settingRows lists all settings, of which set has taken in those of file and
// environment.
func settingRows(settings *config.Settings, set *pflag.FlagSet, getenv func(string) string) []settingRow {
	var rows []settingRow
	add := func(key, value, from string) { rows = append(rows, settingRow{key, &value, from}) }
	for _, k := range config.Keys() {
		said, ok := settings.Get(k.Name)
		switch {
		case set.Changed(k.Name):
			add(k.Name, set.Lookup(k.Name).Value.String(), "--"+k.Name)
		case ok:
			add(k.Name, said.Value, said.From)
		case k.Name == "store" && set.Lookup("store").Value.String() != "":
			add(k.Name, set.Lookup("store").Value.String(), "default")
		default:
			rows = append(rows, settingRow{k.Name, nil, "default: " + k.Default})
		}
	}
	if getenv("TROUPE_TOKEN") != "" {
		add("token", "(secret)", "TROUPE_TOKEN")
	}
	return rows
}

func settingTable(rows []settingRow) *table {
	t := newTable("KEY", "VALUE", "FROM")
	for _, r := range rows {
		value, from := "-", r.From
		if r.Value != nil {
			value = *r.Value
		} else {
			value, from = strings.TrimPrefix(r.From, "default: "), "default"
		}
		t.row(r.Key, value, from)
	}
	return t
}
