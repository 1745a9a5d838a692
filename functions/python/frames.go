package python

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxStack bounds what is told of a stack, in bytes. The main thread is told
// whole, whatever it takes.
const maxStack = 64 << 10

// Lines as Python's faulthandler writes them.
var (
	headLine  = regexp.MustCompile(`^(Current thread|Thread) 0x.* \(most recent call first\):$`)
	frameLine = regexp.MustCompile(`^  File "(.*)", line (\d+|\?\?\?) in (.*)$`)
)

// libraries is where Python and packages have their code.
var libraries = regexp.MustCompile(`/(site|dist)-packages/|/lib\w*/python3[.\d]*/`)

// thread is one of a stack.
type thread struct {
	head  string
	all   []string // its frames as they came, the most recent first
	kept  []string // those to show
	users int      // how many of kept go as far as its outermost frame of the user's
	cut   bool     // Python has shown the most recent only
}

// trimStack returns the lines of a stack that are about the user's code: the
// main thread first, then those others that are in it. Threads that are not are
// idle helpers, of ours or of a library. Frames of ours are left out, and so are
// those from which the outermost of the user's was called. Files of the program
// are named from its folder on: nobody knows the place where a worker has them.
// A main thread that is not in the user's code is shown as it is.
func trimStack(text, sdk, program string) []string {
	main, others := threadsOf(text, frames{sdk: sdk, folder: folderOf(program)})
	var lines []string
	if main != nil {
		lines = main.lines()
	}
	size, left := 0, 0
	for _, t := range others {
		if t.users == 0 && !t.cut {
			continue
		}
		more := t.lines()
		if size += len(strings.Join(more, "\n")); size > maxStack {
			left++
			continue
		}
		lines = append(lines, more...)
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more)", left))
	}
	if lines == nil {
		return strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
	return lines
}

// threadsOf reads a stack. main is nil where it does not say which that is.
func threadsOf(text string, where frames) (main *thread, others []*thread) {
	var t *thread
	for line := range strings.SplitSeq(text, "\n") {
		if head := headLine.FindStringSubmatch(line); head != nil {
			t = &thread{head: line}
			if head[1] == "Current thread" {
				t.head = "Main thread (most recent call first):"
				main = t
			} else {
				others = append(others, t)
			}
			continue
		}
		if t != nil && line != "" {
			t.add(line, where)
		}
	}
	return main, others
}

// add takes the next line below the head.
func (t *thread) add(line string, where frames) {
	t.all = append(t.all, line)
	frame := frameLine.FindStringSubmatch(line)
	if frame == nil {
		t.cut = t.cut || line == "  ..."
		return
	}
	file, isUsers := where.find(frame[1])
	if file == "" {
		return
	}
	t.kept = append(t.kept, fmt.Sprintf("  File %q, line %s in %s", file, frame[2], frame[3]))
	if isUsers {
		t.users = len(t.kept)
	}
}

func (t *thread) lines() []string {
	shown := t.kept[:t.users]
	if t.users == 0 {
		return append([]string{t.head}, t.all...)
	}
	if t.cut {
		shown = append(t.kept, "  ...") // the user's too, perhaps
	}
	return append([]string{t.head}, shown...)
}

// frames tells whose code a frame is in.
type frames struct{ sdk, folder string }

// find returns the name to show of a file, "" for one of ours, and whether it is
// the user's rather than of a library.
func (f frames) find(file string) (name string, isUsers bool) {
	if strings.HasPrefix(file, f.sdk+string(filepath.Separator)) || strings.HasPrefix(file, "<frozen ") || file == "<string>" {
		return "", false
	}
	name, inside := strings.CutPrefix(file, f.folder+string(filepath.Separator))
	if inside {
		file = string(filepath.Separator) + name
	}
	return name, !libraries.MatchString(file)
}

// folderOf returns the folder that the files of a program are in.
func folderOf(program string) string {
	if info, err := os.Stat(program); err == nil && info.IsDir() {
		return program
	}
	return filepath.Dir(program)
}
