package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Verdict says how a mutant ended.
type Verdict string

// The verdicts. Only Killed is good.
const (
	Killed   Verdict = "killed"   // the named test failed
	Survived Verdict = "SURVIVED" // the named test passed on broken code
	Unusable Verdict = "UNUSABLE" // nothing was learned: see Result.Reason
)

// Result is what became of one mutant.
type Result struct {
	Name    string
	Breaks  string // what is wrong with the patched code
	Test    string // as in "./tensor TestCheck"
	Verdict Verdict
	Reason  string // why Unusable: the patch does not apply or compile, the test is missing or fails without it
	Took    time.Duration
}

// Run tries the mutants of root/testdata/mutants, all or those named, and
// returns their results by name. It fails if there are none, if a name is
// unknown, if a header is wrong, or when ctx ends.
func Run(ctx context.Context, root string, names ...string) ([]Result, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	mutants, err := find(root, names)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(mutants))
	errs := make([]error, len(mutants))
	baseline := newBaseline(root)
	var group sync.WaitGroup
	free := make(chan struct{}, max(1, runtime.NumCPU()/2)) // go test itself keeps two busy
	for i, m := range mutants {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			results[i], errs[i] = try(ctx, root, m, baseline)
		})
	}
	group.Wait()
	return results, errors.Join(errs...)
}

// find loads the mutants, sorted by name.
func find(root string, names []string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, "testdata", "mutants", "*.patch"))
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		m, err := load(path)
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	if len(found) == 0 || len(found) < len(names) {
		return nil, fmt.Errorf("found %d mutants in testdata/mutants for %q", len(found), names)
	}
	return found, nil
}

// try breaks the code and runs the test.
func try(ctx context.Context, root string, m mutant, baseline *baseline) (result Result, err error) {
	began := time.Now()
	result = Result{Name: m.name, Breaks: m.breaks, Test: m.pkg + " " + m.test, Verdict: Unusable}
	defer func() { result.Took = time.Since(began) }()
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)

	overlay, err := m.overlay(ctx, root, dir)
	if err != nil {
		result.Reason = err.Error()
		return result, ctx.Err()
	}
	healthy, err := baseline.run(ctx, m.pkg, m.test)
	switch {
	case err != nil:
		return result, err
	case !healthy.built || healthy.failed:
		result.Reason = "the test fails without the patch too:\n" + healthy.output
		return result, nil
	case !healthy.started:
		result.Reason = "there is no such test"
		return result, nil
	}
	broken, err := goTest(ctx, root, m.pkg, m.test, overlay)
	switch {
	case err != nil:
		return result, err
	case !broken.built:
		result.Reason = "the patched code does not compile:\n" + broken.output
	case broken.failed:
		result.Verdict = Killed
	default:
		result.Verdict = Survived
	}
	return result, nil
}

// baseline runs each named test once without a patch: a test that fails anyway
// kills nothing.
type baseline struct {
	root string

	mu   sync.Mutex // guards runs, and is held while one runs
	runs map[string]testRun
}

func newBaseline(root string) *baseline {
	return &baseline{root: root, runs: make(map[string]testRun)}
}

func (b *baseline) run(ctx context.Context, pkg, test string) (testRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := pkg + " " + test
	if run, ok := b.runs[key]; ok {
		return run, nil
	}
	run, err := goTest(ctx, b.root, pkg, test, "")
	if err == nil {
		b.runs[key] = run
	}
	return run, err
}

// Report writes a table of the results and reports whether all were killed.
func Report(w io.Writer, results []Result) bool {
	killed := 0
	for _, r := range results {
		if r.Verdict == Killed {
			killed++
		}
		fmt.Fprintf(w, "%-8s  %5.1f s  %-32s %s\n", r.Verdict, r.Took.Seconds(), r.Name, r.Breaks)
		if r.Verdict != Killed {
			fmt.Fprintf(w, "          by %s\n", r.Test)
		}
		if r.Reason != "" {
			fmt.Fprintf(w, "          %s\n", strings.ReplaceAll(strings.TrimSpace(r.Reason), "\n", "\n          "))
		}
	}
	fmt.Fprintf(w, "%d of %d mutants killed\n", killed, len(results))
	return killed == len(results)
}
