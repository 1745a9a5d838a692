package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
)

// FunctionKey is what runtimes call a function. A built-in has its name. A
// user's program has one for each version and environment, because processes
// that have imported the one cannot run the other.
func FunctionKey(name, version string, env map[string]string) string {
	if version == "" {
		return name
	}
	key := name + "@" + version
	if len(env) == 0 {
		return key
	}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%q=%q\n", k, env[k])
	}
	return key + "+" + hex.EncodeToString(h.Sum(nil)[:8])
}

// functionOf is the key of the function that a plan names.
func functionOf(plan *messages.RoundPlan) string {
	return FunctionKey(plan.GetFunctionName(), plan.GetFunctionVersion(), plan.GetEnv())
}

// outOfTime says more of an attempt that had its time. A program leaves its stack
// in the log.
func (s *state) outOfTime(inv *messages.Invoke) string {
	switch program := inv.GetPlan().GetFunctionVersion() != ""; {
	case s.elsewhere != nil && s.elsewhere(inv):
		return " (--function-timeout), in which its endpoint may have had to start first; the endpoint's own log may say more"
	case program && inv.GetAttempt().GetTask() == messages.Task_TASK_INIT:
		return " (--function-timeout) in which the program was imported and made its model; the job's log says where it was"
	case program:
		return " (--function-timeout); the job's log says where it was"
	}
	return " (--function-timeout)"
}

// metricsOf returns what a function recorded, as a message.
func metricsOf(metrics map[string]functions.Metric) map[string]*messages.WeightedSum {
	if len(metrics) == 0 {
		return nil
	}
	out := make(map[string]*messages.WeightedSum, len(metrics))
	for name, m := range metrics {
		out[name] = &messages.WeightedSum{Sum: m.Sum, Weight: m.Weight}
	}
	return out
}
