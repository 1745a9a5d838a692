package main

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestBadCommandLinesAreRefusedBeforeAnythingStarts(t *testing.T) {
	train := func(flags ...string) []string { return append([]string{"run", "mlp", "-d", "digits"}, flags...) }
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"unknown verb":             {[]string{"rnu"}, `there is no verb "rnu": did you mean "run"?`},
		"unknown verb, like none":  {[]string{"abracadabra"}, `there is no verb "abracadabra": see troupe --help`},
		"unknown verb, short":      {[]string{"zz"}, `there is no verb "zz": see troupe --help`},
		"help for an unknown verb": {[]string{"help", "nosuch"}, `there is no verb "nosuch"`},
		"unknown shell":            {[]string{"completion", "csh"}, `no completion for "csh"`},
		"unknown flag":             {train("--telepathy", "int8"), "unknown flag: --telepathy; see troupe run --help"},
		"unknown short flag":       {train("-x"), "unknown shorthand flag: 'x' in -x; see troupe run --help"},
		"demo with an argument":    {[]string{"demo", "mlp"}, "see troupe demo --help"},
		"demo with a train flag":   {[]string{"demo", "-e", "3"}, "see troupe demo --help"},
		"token without join":       {[]string{"up", "--token", "x"}, "--token is for joining: say with --join what"},
		"joining nowhere":          {[]string{"up", "--join", "here"}, `join "here": give host:port of a node's --listen, such as 10.0.0.1:8780`},
		"joining and serving":      {[]string{"up", "--join", "127.0.0.1:1", "--listen", "127.0.0.1:2"}, "--listen is for the node that leads: leave it out where a node joins"},
		"joining with two tokens":  {[]string{"up", "--join", "127.0.0.1:1", "--token", "x", "--token-file", "y"}, "--token and --token-file say the same thing"},
		"joining without a token":  {[]string{"up", "--join", "127.0.0.1:1", "--tls-dir", "/nonexistent/tls"}, "this node has not joined 127.0.0.1:1 before, and there is no token"},
		"joining with nonsense":    {[]string{"up", "--join", "127.0.0.1:1", "--token", "x", "--tls-dir", "/nonexistent/tls"}, "what was given is no join token: copy all of what troupe up has printed"},
		"a label of no value":      {[]string{"up", "--node-label", "zone"}, `label "zone": give name=value`},
		"node-listen without port": {[]string{"up", "--node-listen", "10.0.0.1"}, `node-listen "10.0.0.1": give host:port`},
		"advertise with a port":    {[]string{"up", "--advertise", "10.0.0.1:1"}, "give a name or an address without a port"},
		"no function":              {[]string{"run", "-d", "digits"}, "run takes one FUNCTION and was given 0 arguments"},
		"two functions":            {[]string{"run", "mlp", "digits"}, `was given 2 arguments ["mlp" "digits"]`},
		"empty function":           {[]string{"run", "", "-d", "digits"}, "function: no name given"},
		"no data set":              {[]string{"run", "mlp"}, "dataset: no name given"},
		"epochs 0":                 {train("-e", "0"), `invalid argument "0" for "-e, --epochs" flag: give a whole number from 1 to 1000000`},
		"epochs 1000001":           {train("-e", "1000001"), "from 1 to 1000000"},
		"batch 0":                  {train("-b", "0"), `"0" for "-b, --batch" flag: give a whole number from 1 to 65536`},
		"batch -1":                 {train("-b", "-1"), `"-1" for "-b, --batch" flag`},
		"batch 1.5":                {train("-b", "1.5"), `"1.5" for "-b, --batch" flag`},
		"lr 0":                     {train("--lr", "0"), `"0" for "--lr" flag: give a finite number above 0`},
		"lr NaN":                   {train("--lr", "nan"), `"nan" for "--lr" flag`},
		"lr Inf":                   {train("--lr", "inf"), `"inf" for "--lr" flag`},
		"lr that rounds to 0":      {train("--lr", "1e-999"), `"1e-999" for "--lr" flag`},
		"N 0":                      {train("-p", "0"), `"0" for "-p, --parallelism" flag: give a whole number from 1 to 65536`},
		"N 65537":                  {train("-p", "65537"), `"65537" for "-p, --parallelism" flag`},
		"N 2^32":                   {train("-p", "4294967297"), `"4294967297" for "-p, --parallelism" flag`},
		"min 0":                    {train("--min-parallelism", "0"), `"0" for "--min-parallelism" flag`},
		"max 0":                    {train("--max-parallelism", "0"), `"0" for "--max-parallelism" flag`},
		"max below min":            {train("--min-parallelism", "4", "--max-parallelism", "2"), "max-parallelism 2 is below min-parallelism 4"},
		"K 0":                      {train("-K", "0"), `"0" for "-K, --K" flag: give 1 to 2147483647 batches, or -1 for one round an epoch`},
		"K -2":                     {train("-K", "-2"), `"-2" for "-K, --K" flag`},
		"K beside sparse-avg":      {train("-K", "3", "--sparse-avg"), "--K and --sparse-avg say the same thing"},
		"unknown merge":            {train("--merge", "mode"), `"mode" for "--merge" flag: merge "mode" does not exist: give one of average, average:unweighted, nesterov[:lr,momentum]`},
		"merge momentum 1":         {train("--merge", "nesterov:1,1"), `merge "nesterov:1,1": momentum 1: give a number in [0, 1)`},
		"merge share 0.5":          {train("--merge", "trimmed-mean:0.5"), `merge "trimmed-mean:0.5": share 0.5: give what part of the answers`},
		"goal 0":                   {train("--goal-accuracy", "0"), `"0" for "--goal-accuracy" flag: give a percentage above 0, at most 100`},
		"goal 101":                 {train("--goal-accuracy", "101"), `"101" for "--goal-accuracy" flag`},
		"patience 0":               {train("--patience", "0"), `"0" for "--patience" flag: give a whole number from 1 to 1000000`},
		"time without a unit":      {train("--max-time", "30"), `"30" for "--max-time" flag: give 1ms to 87600h0m0s, such as 90s or 5m`},
		"no time":                  {train("--max-time", "0s"), `"0s" for "--max-time" flag`},
		"jobs in threads":          {[]string{"up", "--jobs", "thread"}, `"thread" for "--jobs" flag: give one of in-process, process`},
		"jobs without a store":     {[]string{"up", "--jobs", "process", "--store", "mem://"}, "jobs process: no other process sees the store mem://"},
		"a relative cache":         {[]string{"up", "--cache", "here"}, `cache "here" is no absolute path: give one, such as /var/cache/troupe`},
		"no room in the cache":     {[]string{"up", "--cache-limit", "0"}, `"0" for "--cache-limit" flag: give a size such as 500MB or 2GiB`},
		"keep the first":           {train("--keep", "first"), `"first" for "--keep" flag: give one of last, best`},
		"clip 0":                   {train("--clip", "0"), `"0" for "--clip" flag: give a finite number above 0`},
		"unknown optimizer state":  {train("--optimizer-state", "lose"), "give one of keep, reset, average"},
		"unknown compression":      {train("--compress", "int4"), "give one of none, int8"},
		"validate every 0":         {train("--validate-every", "0"), "give a number of epochs above 0, or -1 for only at the end"},
		"validate every NaN":       {train("--validate-every", "NaN"), `"NaN" for "--validate-every" flag`},
		"shuffle both ways":        {train("--shuffle", "--no-shuffle"), "--shuffle and --no-shuffle"},
		"backup both ways":         {train("--backup", "--no-backup"), "--backup and --no-backup"},
		"unknown bad samples":      {train("--on-bad-samples", "skip"), `"skip" for "--on-bad-samples" flag: give one of fail, drop`},
		"dropped without retries":  {train("--on-bad-samples", "drop", "--retries", "0"), "on-bad-samples drop with retries 0"},
		"seed -1":                  {train("--seed", "-1"), `"-1" for "--seed" flag: give a whole number from 0 to 18446744073709551615`},
		"seed 2^64":                {train("--seed", "18446744073709551616"), `"18446744073709551616" for "--seed" flag: give a whole number from 0 to`},
		"priority 99999999999":     {train("--priority", "99999999999"), `"99999999999" for "--priority" flag: give a whole number from -2147483648 to 2147483647`},
		"priority high":            {train("--priority", "high"), `"high" for "--priority" flag: give a whole number from -2147483648`},
		"patience above the epochs": {
			train("-e", "5", "--patience", "7"),
			"patience 7 never ends a job of 5 epochs before its last one, with validate-every 1: give at most 3, or more epochs",
		},
		"retries -1":              {train("--retries", "-1"), "give a whole number from 0 to 1000"},
		"min functions 0":         {train("--min-functions", "0"), `"0" for "--min-functions" flag`},
		"time-out 0":              {train("--function-timeout", "0"), "give 1ms to 720h0m0s, such as 90s or 5m"},
		"states too often":        {train("--checkpoint-every", "0"), "give auto, or 1ms to 720h0m0s, such as 90s or 5m"},
		"time-out without a unit": {train("--function-timeout", "30"), `"30" for "--function-timeout" flag`},
		"argument without =":      {train("--arg", "k"), "give name=value, each name once"},
		"argument given twice":    {train("--arg", "k=1", "--arg", "k=2"), "give name=value, each name once"},
		"label that cannot be":    {[]string{"train", "-f", "mlp", "-d", "digits", "--require-label", "gpu=a 100"}, `require-label "gpu=a 100": give name=value, each of 1 to 63 letters`},
		"label without =":         {[]string{"train", "-f", "mlp", "-d", "digits", "--require-label", "gpu"}, `"gpu" for "--require-label" flag: give name=value, each name once`},
		"broken chaos":            {train("--chaos", "kill=2"), "chaos kill=2: give a share in [0, 1]"},
		"slots 0":                 {train("--slots", "0"), `"0" for "--slots" flag: give a whole number from 1 to 65536`},
		"threads 0":               {train("--threads", "0"), `"0" for "--threads" flag`},
		"no store":                {train("--store", ""), "there is no store"},
		"unknown output":          {train("-o", "yaml"), "give one of text, json"},
		"version in yaml":         {[]string{"version", "-o", "yaml"}, "give one of text, json"},
	} {
		t.Run(name, func(t *testing.T) {
			company := succeeded()
			r := newWorld(t).run(company, c.args...)
			require.Equal(t, 2, r.code)
			require.True(t, strings.HasPrefix(r.err, "troupe: "), r.err)
			require.Contains(t, r.err, c.says)
			require.Equal(t, 1, strings.Count(r.err, "\n"), "one line: %s", r.err)
			require.Empty(t, r.out)
			require.Zero(t, company.started)
		})
	}
}

// A folder that cannot be used costs every job that comes to the node; so the node
// does not start, whether it leads or joins.
func TestAnUnusableCacheIsRefusedBeforeAnythingStarts(t *testing.T) {
	for _, args := range [][]string{{"up"}, {"up", "--join", "127.0.0.1:1", "--token", "x"}} {
		r := newWorld(t).run(succeeded(), append(args, "--cache", "/proc/none")...)
		require.Equal(t, 5, r.code)
		require.Contains(t, r.err, `cache "/proc/none" cannot be used: `)
		require.Equal(t, 1, strings.Count(r.err, "\n"), "one line: %s", r.err)
	}
}

func TestEveryVerbHasAnExampleAndItsExitCodes(t *testing.T) {
	w := newWorld(t)
	root := newRootCommand(&session{env: w.env, screen: newScreen(w.Err)})
	for _, cmd := range verbs(root) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			w := newWorld(t)
			args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
			r := w.run(succeeded(), args...)
			require.Zero(t, r.code)
			require.Empty(t, r.err)
			for _, part := range []string{"Usage:", "Examples:\n  ", "Exit codes:\n  0      done\n", "  2      the request is wrong\n"} {
				require.Contains(t, r.out, part)
			}
		})
	}
}

func verbs(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, child := range cmd.Commands() {
		all = append(all, verbs(child)...)
	}
	return all
}

func TestHelpShowsTheDefaults(t *testing.T) {
	r := newWorld(t).run(succeeded(), "help", "run")
	require.Zero(t, r.code)
	for _, part := range []string{
		"(default 5)", "(default 64)", "(default 0.01)", "(default 16)", "(default average)", "(default keep)", "(default true)",
		"(default 3)", "(default 30m)", "(default text)", "file:///home/ann/.local/share/troupe", "  7      the job ended FAILED\n",
	} {
		require.Contains(t, r.out, part)
	}
}

func TestVersion(t *testing.T) {
	r := newWorld(t).run(succeeded(), "version")
	require.Zero(t, r.code)
	require.Regexp(t, `^troupe \S+ \(go\S+ \w+/\w+\)\n$`, r.out)
	r = newWorld(t).run(succeeded(), "version", "-o", "json")
	require.Zero(t, r.code)
	require.Regexp(t, `^\{"version":".+","go":"go.+","platform":".+"\}\n$`, r.out)
}

// noWriter takes nothing, as a full disk does.
type noWriter struct{}

func (noWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Whatever writes a result, one that cannot be written is told.
func TestWhatCannotBeWrittenIsToldByEveryVerb(t *testing.T) {
	for _, line := range []string{"", "run -h", "help run", "version", "config show", "completion", "completion bash", "__complete run -", "function list --store mem://"} {
		w := newWorld(t)
		w.Out = noWriter{}
		r := w.run(succeeded(), strings.Fields(line)...)
		require.Equal(t, exitUnavailable, r.code, line)
		require.Contains(t, r.err, "troupe: cannot write to standard output: no space left on device\n", line)
	}
}

// On a terminal no line of flags is wider than it.
func TestHelpFitsTheTerminal(t *testing.T) {
	help := func(columns int) (widest int) {
		w := newWorld(t)
		w.Columns = func(io.Writer) int { return columns }
		for line := range strings.Lines(w.run(succeeded(), "run", "--help").out) {
			if strings.HasPrefix(line, "      ") && len(strings.Fields(line)) > 1 { // of flags, and can be broken
				widest = max(widest, len(strings.TrimSuffix(line, "\n")))
			}
		}
		return widest
	}
	require.LessOrEqual(t, help(80), 80)
	require.Greater(t, help(0), 120, "elsewhere each has one line")
}
