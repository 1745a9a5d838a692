package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// table is what a list looks like to people.
type table struct {
	text  bytes.Buffer
	rows  *tabwriter.Writer
	below string // a line under the rows; "": none
}

func newTable(titles ...string) *table {
	t := &table{}
	t.rows = tabwriter.NewWriter(&t.text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t.rows, strings.Join(titles, "\t"))
	return t
}

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.rows, strings.Join(texts, "\t"))
}

// printTable writes a table to standard output in one write.
func (s *session) printTable(t *table) error {
	if err := t.rows.Flush(); err != nil {
		return err
	}
	if t.below != "" {
		fmt.Fprintln(&t.text, t.below)
	}
	_, err := s.Out.Write(t.text.Bytes())
	return err
}

// printList writes a list: as JSON, or as a table, or for one without rows as
// a remark on standard error.
func printList[T any](s *session, output string, list []T, none string, rows func([]T) *table) error {
	switch {
	case output == "json" && list == nil:
		return s.printJSON([]T{}) // never null
	case output == "json":
		return s.printJSON(list)
	case len(list) == 0:
		fmt.Fprintln(s.screen, none)
		return nil
	}
	return s.printTable(rows(list))
}

// printJSON writes one line to standard output in one write.
func (s *session) printJSON(v any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// orDash formats what was measured.
func orDash(format string, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}

// moment is a time for people, from milliseconds since 1970.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// registerTable adds the flag that every list has.
func registerTable(set *pflag.FlagSet, output *string) {
	set.VarP(oneOf(output, []string{"table", "json"}), "output", "o", "how the list is printed")
}

// newGroup returns a verb that has verbs.
func newGroup(name, short, example string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:         name,
		Short:       short,
		Example:     example,
		Annotations: exits(exitDone, exitBug, exitInvalid),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}
