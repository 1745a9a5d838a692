package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// put writes a file of a home.
func (h home) put(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// small is a program that says who it is, and what data set it was written for.
func small(says, dataset string) string {
	return `
import torch
import troupe
class Small(troupe.Model):
    def __init__(self):
        super().__init__(torch.nn.Linear(64, 10), troupe.Dataset("` + dataset + `"))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)
    def train(self, batch, batch_index):
        return 1.0
    def validate(self, batch, batch_index):
        return float(self.args.get("accuracy", "50")), 1.0
print("I am ` + says + `")
def main():
    return Small().start()
`
}

// The bare name of a folder with a program is the folder's, as it is now, and not
// what the store has of it.
func TestE2EAFolderByItsName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put(t, "fold/main.py", small("the first", "digits"))
	first := h.troupe(t, "run", "fold", "-d", "digits", "-e", "1", "-o", "json")
	require.Zero(t, first.code, first.err)
	require.NotContains(t, first.err, "warning")
	require.Contains(t, h.log(t, parse(t, first.out)), "I am the first")

	h.put(t, "fold/main.py", small("the second", "mnist"))
	second := h.troupe(t, "run", "fold", "-d", "digits", "-e", "2", "-p", "2", "-o", "json")
	require.Zero(t, second.code, second.err)
	require.Contains(t, h.log(t, parse(t, second.out)), "I am the second")
	require.Equal(t, 1, strings.Count(second.err, `function "fold": the folder here is used, and takes the place of what the store had under that name; ./fold says so`), second.err)
	require.Equal(t, 1, strings.Count(second.err, "the program names the data set 'mnist', the task 'digits': the task's is used"), second.err)

	again := h.troupe(t, "run", "fold", "-d", "digits", "-e", "1", "-p", "1")
	require.Zero(t, again.code, again.err)
	require.Equal(t, 1, strings.Count(again.err, "warning"), "that of the data set is left: %s", again.err)

	h.put(t, "mlp/main.py", small("not built in", ""))
	built := h.troupe(t, "run", "mlp", "-d", "digits", "-e", "1")
	require.Zero(t, built.code, built.err)
	require.Equal(t, 1, strings.Count(built.err, `the built-in one is used, and not the folder here; name that ./mlp`), built.err)
	none := h.troupe(t, "run", "nosuch", "-d", "digits")
	require.Equal(t, 3, none.code)
	require.Contains(t, none.err, "any folder with main.py, such as ./nosuch")
}

// What goes wrong is told with its place, and an accuracy that is none as such.
func TestE2EPythonTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put(t, "p.py", small("p", ""))
	run := func(more ...string) ended {
		return h.troupe(t, append([]string{"run", "-d", "digits", "-e", "1"}, more...)...)
	}
	e := run("p.py", "--arg", "accuracy=150")
	require.Equal(t, 7, e.code, e.err)
	require.Contains(t, e.err, "the function reports an accuracy of 150 %")
	require.NotContains(t, e.err, "--lr")
	require.Regexp(t, `\n  log       file://\S+/logs\n  more      -v says what happens\n`, e.out)

	h.put(t, "raises.py", "print('hello')\nraise ValueError('at import')\n")
	e = run("raises.py", "-o", "json")
	require.Equal(t, 7, e.code, e.err)
	require.Contains(t, e.err, `the function raised the same error twice (before the first epoch): function "raises" raised ValueError at import (raises.py:2): at import`)
	require.Contains(t, h.log(t, parse(t, e.out)), "hello\nTraceback (most recent call last):\n  File \"raises.py\", line 2, in <module>\n")

	h.put(t, "sleeps.py", "import time\nprint('hello')\ntime.sleep(3600)\n")
	e = run("sleeps.py", "-o", "json", "--function-timeout", "8s", "--retries", "0")
	require.Equal(t, 7, e.code, e.err)
	require.Contains(t, e.err, "no first model: timed out after 8s (--function-timeout) in which the program was imported and made its model; the job's log says where it was")
	require.Regexp(t, `most recent call first\):\n  File "(sleeps\.py|.*torch.*|.*/lib/python.*)", line \d+ in `, h.log(t, parse(t, e.out)), "of the program, or of what it waits for")

	h.put(t, "exits.py", "import os\nos._exit(0)\n")
	e = run("exits.py", "--retries", "0")
	require.Regexp(t, `ended with exit status 0 while it imported the program\n`, e.err)

	h.put(t, "broken.safetensors", "not a model")
	e = run("mlp", "--init", "broken.safetensors")
	require.Equal(t, 6, e.code, e.err)
	require.Contains(t, e.err, `start from "broken.safetensors"`)
}
