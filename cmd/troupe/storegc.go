package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/gc"
)

// newStoreCommand returns the verb for a store as a whole.
func newStoreCommand(s *session) *cobra.Command {
	return newGroup("store", "Look after a store", "  troupe store gc --dry-run", newStoreGCCommand(s))
}

// newStoreGCCommand returns the verb that removes what nobody needs.
func newStoreGCCommand(s *session) *cobra.Command {
	url, output, dry := config.DefaultStore(s.Getenv), "table", false
	older := 30 * 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove from a store what nobody needs",
		Long: `Remove from a store what nobody needs: versions of functions and data sets that
no job and no model names, what jobs that have ended could be resumed from,
what processes left that died half way. Models and histories stay.

It works on the store itself, that of --store or else of this user, beside the
server that uses it, and so on a machine that can reach the store. A server that
TROUPE_SERVER or the configuration names is not asked.`,
		Example:     "  troupe store gc --dry-run\n  troupe store gc --older 7d --store file:///srv/troupe",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.brief(func(ctx context.Context) error { return s.collect(ctx, url, older, dry, output) })
		},
	}
	set := cmd.Flags()
	set.Var(age(&older, "30d"), "older", "leave what is younger, such as 36h or 30d")
	set.BoolVar(&dry, "dry-run", false, "list what would go, and remove nothing")
	set.StringVar(&url, "store", url, "URL of the store; else $TROUPE_STORE")
	registerTable(set, &output)
	return cmd
}

// garbageRow is what is removed, as -o json prints it.
type garbageRow struct {
	Key    string `json:"key"` // in the store
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

func (s *session) collect(ctx context.Context, url string, older time.Duration, dry bool, output string) (err error) {
	if url == "" {
		return fault.New("store.gc", fault.Invalid, "there is no store: give --store file:///folder, or set TROUPE_STORE or HOME")
	}
	bucket, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	do, done := actors.CollectGarbage, "removed"
	if dry {
		do, done = actors.FindGarbage, "would be removed"
	}
	report, err := do(ctx, bucket, time.Now(), older)
	for _, w := range report.Warnings {
		fmt.Fprintf(s.screen, "troupe: warning: %s\n", w)
	}
	rows := []garbageRow{}
	for _, i := range report.Items {
		rows = append(rows, garbageRow{i.Key, i.Bytes, string(i.Reason)})
	}
	if output == "json" {
		return errors.Join(err, s.printJSON(rows))
	}
	if len(rows) == 0 && err == nil {
		fmt.Fprintf(s.screen, "%s: nothing %s\n", url, done)
		return err
	}
	fmt.Fprintf(s.screen, "%s: %s, %d bytes, %s\n", url, count(len(rows), "object"), report.Bytes, done)
	return errors.Join(err, s.printTable(garbageTable(report.Items)))
}

// garbageTable adds up what goes, by reason.
func garbageTable(items []gc.Item) *table {
	t := newTable("OBJECTS", "BYTES", "WHAT")
	var reasons []gc.Reason
	objects, bytes := map[gc.Reason]int{}, map[gc.Reason]int64{}
	for _, i := range items {
		if objects[i.Reason] == 0 {
			reasons = append(reasons, i.Reason)
		}
		objects[i.Reason]++
		bytes[i.Reason] += i.Bytes
	}
	for _, r := range reasons {
		t.row(objects[r], bytes[r], r)
	}
	return t
}

// age is a duration of at least 0, in days too.
func age(p *time.Duration, text string) *value {
	return &value{kind: "age", text: text, set: func(s string) error {
		d, err := time.ParseDuration(s)
		if days, ok := strings.CutSuffix(s, "d"); ok {
			var n float64
			n, err = strconv.ParseFloat(days, 64)
			d = time.Duration(n * 24 * float64(time.Hour))
			if !(n >= 0 && n <= 36500) {
				err = errors.New("out of range")
			}
		}
		if err != nil || d < 0 {
			return errors.New("give an age such as 36h or 30d")
		}
		*p = d
		return nil
	}}
}
