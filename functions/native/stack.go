package native

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/functions"
)

// The labels of the goroutines of a call.
const (
	jobLabel   = "troupe_job"
	indexLabel = "troupe_function"
)

// caller begins the names of what calls a function, and of what called that.
const caller = "github.com/troupe-ml/troupe/functions/native.(*run)."

var _ functions.Tracer = (*Runtime)(nil)

// labelled runs a call so that Stacks finds it, with all goroutines that it
// starts.
func labelled(ctx context.Context, inv functions.Invocation, call func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(jobLabel, inv.JobID, indexLabel, strconv.Itoa(inv.Index)), call)
}

// Stacks implements functions.Tracer.
func (*Runtime) Stacks(jobID string) map[int]string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil
	}
	stacks := map[int]string{}
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(group, fmt.Sprintf("%q:%q", jobLabel, jobID)) {
			continue
		}
		_, index, ok := strings.Cut(group, fmt.Sprintf("%q:\"", indexLabel))
		if !ok {
			continue
		}
		index, _, _ = strings.Cut(index, `"`)
		if n, err := strconv.Atoi(index); err == nil {
			stacks[n] += frames(group)
		}
	}
	return stacks
}

// frames returns the frames of a goroutine that are of the function, a line each:
// name, file, line; of one that is in none, all.
func frames(group string) string {
	var all, own []string
	called := false // by us
	for line := range strings.SplitSeq(group, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "#" || !strings.HasPrefix(fields[1], "0x") {
			continue
		}
		name, _, _ := strings.Cut(fields[2], "+0x")
		frame := "  " + name + " " + fields[3]
		all = append(all, frame)
		called = called || strings.HasPrefix(name, caller)
		if !called {
			own = append(own, frame)
		}
	}
	if own == nil {
		own = all
	}
	return strings.Join(own, "\n") + "\n"
}
