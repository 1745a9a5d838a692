package python

import (
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// failure is what a zygote or worker says went wrong.
type failure struct {
	Kind      string   `json:"kind"`
	Type      string   `json:"type"`
	Message   string   `json:"message"`
	Traceback string   `json:"traceback"`
	Method    string   `json:"method"` // of the user's class, "" = none
	Where     string   `json:"where"`  // file:line of the user's that raised, "" = unknown
	Warnings  []string `json:"warnings"`
}

// fault is the failure of a program as an error of ours.
func (f *failure) fault(function string) error {
	text := strings.TrimSpace(f.Message)
	switch f.Kind {
	case "invalid", "unsupported":
		return fault.New("python.run", fault.Invalid, "function %q: %s", function, text)
	case "corrupt":
		return fault.New("python.run", fault.Corrupt, "function %q: %s", function, text)
	case "rejected":
		return fault.New("python.run", fault.Rejected, "function %q: %s", function, text)
	case "memory": // the text says what helps
		return fault.New("python.run", fault.Unavailable, "function %q: %s", function, text)
	case "user":
		where := ""
		switch f.Method {
		case "":
		case "import":
			where = " at import"
		default:
			where = " in " + f.Method
		}
		if f.Where != "" {
			where += " (" + f.Where + ")"
		}
		e := fault.New("python.run", fault.UserCode, "function %q raised %s%s: %s", function, f.Type, where, text)
		if e.Trace = f.Traceback; e.Trace == "" {
			e.Trace = f.Type + ": " + text
		}
		return e
	}
	return fault.New("python.run", fault.Unavailable, "the worker of function %q failed: %s: %s\n%s", function, f.Type, text, f.Traceback)
}
