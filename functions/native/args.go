package native

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Arg is an argument that a function takes from the user's --arg name=value.
// Make one with Number, Integer or Text.
type Arg struct {
	Name    string
	Help    string // one line
	Default string

	check func(value string) string // what is wrong, "" = nothing
}

// Number is an argument in [lo, hi].
func Number(name string, def, lo, hi float64, help string) Arg {
	return Arg{Name: name, Help: help, Default: format(def), check: func(value string) string {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(x) || x < lo || x > hi {
			return "give a number from " + format(lo) + " to " + format(hi)
		}
		return ""
	}}
}

// Integer is a whole number in [lo, hi].
func Integer(name string, def, lo, hi int, help string) Arg {
	return Arg{Name: name, Help: help, Default: strconv.Itoa(def), check: func(value string) string {
		x, err := strconv.Atoi(value)
		if err != nil || x < lo || x > hi {
			return "give a whole number from " + strconv.Itoa(lo) + " to " + strconv.Itoa(hi)
		}
		return ""
	}}
}

// Text is any text.
func Text(name, def, help string) Arg {
	return Arg{Name: name, Help: help, Default: def, check: func(string) string { return "" }}
}

// Args are the checked arguments of a call. Its methods panic when asked for a
// name that the Function does not declare, or as another type than declared.
type Args map[string]string

// Number returns an argument declared by Number.
func (a Args) Number(name string) float64 {
	x, err := strconv.ParseFloat(a.Text(name), 64)
	if err != nil {
		panic(err)
	}
	return x
}

// Integer returns an argument declared by Integer.
func (a Args) Integer(name string) int {
	x, err := strconv.Atoi(a.Text(name))
	if err != nil {
		panic(err)
	}
	return x
}

// Text returns an argument as it was given, or its default.
func (a Args) Text(name string) string {
	value, ok := a[name]
	if !ok {
		panic(fault.New("native.args", fault.UserCode, "argument %q is not declared in Function.Args", name))
	}
	return value
}

// parseArgs checks given against what f declares and adds the defaults.
func (f Function) parseArgs(given map[string]string) (Args, error) {
	args := make(Args, len(f.Args))
	for _, a := range f.Args {
		args[a.Name] = a.Default
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names) // the same one is named every time
	for _, name := range names {
		value := given[name]
		i := slices.IndexFunc(f.Args, func(a Arg) bool { return a.Name == name })
		if i < 0 {
			return nil, fault.New("native.args", fault.Invalid, "function %q has no argument %q: %s", f.Name, name, f.argList())
		}
		if wrong := f.Args[i].check(value); wrong != "" {
			return nil, fault.New("native.args", fault.Invalid, "argument %s=%q of function %q: %s", name, value, f.Name, wrong)
		}
		args[name] = value
	}
	return args, nil
}

func (f Function) argList() string {
	if len(f.Args) == 0 {
		return "it takes none"
	}
	names := make([]string, len(f.Args))
	for i, a := range f.Args {
		names[i] = a.Name
	}
	return "it takes " + strings.Join(names, ", ")
}

func checkArgs(function string, args []Arg) error {
	seen := map[string]bool{}
	for _, a := range args {
		if a.Name == "" || a.check == nil || seen[a.Name] {
			return fault.New("native.new", fault.Invalid,
				"argument %q of function %q: make each with Number, Integer or Text, and once", a.Name, function)
		}
		seen[a.Name] = true
		if wrong := a.check(a.Default); wrong != "" {
			return fault.New("native.new", fault.Invalid,
				"argument %q of function %q: its default %q is out of range: %s", a.Name, function, a.Default, wrong)
		}
	}
	return nil
}

func format(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// CheckArgs returns the Invalid error, which names the argument, that a call of
// the function with these arguments would give; nil when they are fine.
// NotFound: no such function here.
func (r *Runtime) CheckArgs(function string, given map[string]string) error {
	f, ok := r.functions[function]
	if !ok {
		return fault.New("native.args", fault.NotFound, "no function %q", function)
	}
	_, err := f.parseArgs(given)
	return err
}
