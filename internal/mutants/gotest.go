package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// testRun is what `go test -json` told about the tests of one package.
type testRun struct {
	started bool   // at least one test began
	failed  bool   // it compiled, and a test did not pass
	built   bool   // the package and its tests compiled
	output  string // of the compiler and of the tests
}

// testEvent is a line of `go test -json` (see `go doc test2json`).
type testEvent struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

// goTest runs the tests of one package whose whole name matches pattern, with
// the overlay file (none if ""). It fails only if the go command cannot run.
func goTest(ctx context.Context, root, pkg, pattern, overlay string) (testRun, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-tags=invariants",
		"-count=1", "-failfast", "-timeout=2m", "-run=^("+pattern+")$", pkg)
	cmd.Dir = root
	if overlay != "" { // in the environment, so that a test that builds a program builds a broken one
		cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return testRun{}, errors.Join(ctx.Err(), err)
	}
	return readRun(stdout, stderr.String(), err == nil)
}

// readRun makes sense of the events in stdout.
func readRun(stdout []byte, stderr string, passed bool) (testRun, error) {
	run := testRun{built: true, output: stderr}
	var reported bool // whether the package as a whole passed or failed
	for events := json.NewDecoder(bytes.NewReader(stdout)); ; {
		var event testEvent
		if err := events.Decode(&event); err == io.EOF {
			break
		} else if err != nil {
			return testRun{}, fmt.Errorf("go test -json: %w", err)
		}
		run.output += event.Output
		switch {
		case event.Action == "build-fail" || event.FailedBuild != "":
			run.built = false
		case event.Action == "run":
			run.started = true
		case event.Test == "" && (event.Action == "pass" || event.Action == "fail"):
			reported = true
		}
	}
	run.built = run.built && reported
	run.failed = run.built && run.started && !passed
	return run, nil
}
