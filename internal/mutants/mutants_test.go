package mutants_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/mutants"
)

// clamp is the code that the mutants of these tests break.
const clamp = `package clamp

// Clamp returns x, or the nearer end of [lo, hi].
func Clamp(x, lo, hi int) int {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}
`

const clampTest = `package clamp

import "testing"

func TestLow(t *testing.T) {
	if Clamp(-1, 0, 9) != 0 {
		t.Fatal("below")
	}
}

func TestPanics(t *testing.T) {
	if Clamp(10, 0, 9) != 9 {
		done := make(chan bool)
		go func() { defer close(done); panic("in another goroutine") }()
		<-done
	}
}

func TestBroken(t *testing.T) { t.Fatal("always") }
`

// lowIsWrong returns a patch that makes Clamp answer the wrong low end.
func lowIsWrong(test string) string {
	return patch("x below the low end is negated", test, "\t\treturn lo", "\t\treturn -x")
}

func patch(breaks, test, before, after string) string {
	return "# breaks: " + breaks + "\n# test: " + test + "\n--- a/clamp.go\n+++ b/clamp.go\n@@ -5,3 +5,3 @@\n" +
		" \tif x < lo {\n-" + before + "\n+" + after + "\n \t}\n"
}

// module writes a module with Clamp, its tests and the given patches.
func module(t *testing.T, patches map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module clamp\n\ngo 1.26\n")
	write("clamp.go", clamp)
	write("clamp_test.go", clampTest)
	for name, text := range patches {
		write("testdata/mutants/"+name+".patch", text)
	}
	return root
}

func TestRunTellsWhetherTheNamedTestNotices(t *testing.T) {
	tests := []struct {
		name, patch, reason string
		want                mutants.Verdict
	}{
		{name: "the test notices", patch: lowIsWrong(". TestLow"), want: mutants.Killed},
		{
			name: "a panic of any goroutine is noticed",
			patch: "# breaks: no high end\n# test: . TestPanics\n--- a/clamp.go\n+++ b/clamp.go\n@@ -8,3 +8,3 @@\n" +
				" \tif x > hi {\n-\t\treturn hi\n+\t\treturn x\n \t}\n",
			want: mutants.Killed,
		},
		{name: "the test looks elsewhere", patch: lowIsWrong(". TestPanics"), want: mutants.Survived},
		{
			name:  "nothing is broken",
			patch: patch("nothing", ". TestLow", "\t\treturn lo", "\t\treturn lo + 0"),
			want:  mutants.Survived,
		},
		{name: "the test fails anyway", patch: lowIsWrong(". TestBroken"), want: mutants.Unusable, reason: "fails without the patch"},
		{name: "there is no such test", patch: lowIsWrong(". TestNone"), want: mutants.Unusable, reason: "no such test"},
		{name: "there is no such package", patch: lowIsWrong("./none TestLow"), want: mutants.Unusable, reason: "fails without the patch"},
		{
			name:  "the patched code does not compile",
			patch: patch("types", ". TestLow", "\t\treturn lo", "\t\treturn true"),
			want:  mutants.Unusable, reason: "does not compile",
		},
		{
			name:  "the code has moved on",
			patch: patch("old code", ". TestLow", "\t\treturn low", "\t\treturn -x"),
			want:  mutants.Unusable, reason: "no longer applies",
		},
	}
	patches := make(map[string]string)
	for _, test := range tests {
		patches[strings.ReplaceAll(test.name, " ", "-")] = test.patch
	}
	root := module(t, patches)
	results, err := mutants.Run(t.Context(), root)
	require.NoError(t, err)
	got := make(map[string]mutants.Result)
	for _, result := range results {
		got[result.Name] = result
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result := got[strings.ReplaceAll(test.name, " ", "-")]
			require.Equal(t, test.want, result.Verdict, "%s", result.Reason)
			require.Contains(t, result.Reason, test.reason)
			require.Positive(t, result.Took)
		})
	}
	left, err := os.ReadFile(filepath.Join(root, "clamp.go"))
	require.NoError(t, err)
	require.Equal(t, clamp, string(left), "the working tree is not touched")
}

func TestRunRefusesWhatCannotBeJudged(t *testing.T) {
	tests := []struct {
		name, patch, want string
	}{
		{"a patch without a header", "--- a/clamp.go\n+++ b/clamp.go\n", "header"},
		{"a header without a patch", "# breaks: it\n# test: . TestLow\n", "changes nothing"},
		{"a patch of a test", strings.ReplaceAll(lowIsWrong(". TestLow"), "clamp.go", "clamp_test.go"), "not our code"},
		{"a patch of something that is not Go", strings.ReplaceAll(lowIsWrong(". TestLow"), "clamp.go", "clamp.txt"), "not our code"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := mutants.Run(t.Context(), module(t, map[string]string{"m": test.patch}))
			require.ErrorContains(t, err, test.want)
		})
	}
	t.Run("no mutant at all", func(t *testing.T) {
		_, err := mutants.Run(t.Context(), module(t, nil))
		require.ErrorContains(t, err, "found 0 mutants")
	})
	t.Run("an unknown name", func(t *testing.T) {
		_, err := mutants.Run(t.Context(), module(t, map[string]string{"m": lowIsWrong(". TestLow")}), "m", "n")
		require.ErrorContains(t, err, "found 1 mutants")
	})
}

func TestReportPassesOnlyIfAllAreKilled(t *testing.T) {
	dead := mutants.Result{Name: "dead", Breaks: "one thing", Test: ". TestLow", Verdict: mutants.Killed}
	alive := mutants.Result{Name: "alive", Breaks: "another", Test: ". TestHigh", Verdict: mutants.Survived}
	var out strings.Builder
	require.True(t, mutants.Report(&out, []mutants.Result{dead}))
	require.Contains(t, out.String(), "1 of 1 mutants killed")
	out.Reset()
	require.False(t, mutants.Report(&out, []mutants.Result{dead, alive}))
	require.Contains(t, out.String(), "by . TestHigh")
	require.Contains(t, out.String(), "1 of 2 mutants killed")
}
