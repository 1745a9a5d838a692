package dataset

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// roles are the files in a folder that hold a data set.
type roles struct {
	idx   bool                   // IDX files, else .npy
	names [len(fileNames)]string // in the order of fileNames; both of the test part may be ""
}

// setKey tells the data sets in one folder apart.
type setKey struct {
	idx    bool
	prefix string // of the names of IDX files: EMNIST's have one
}

// pick finds the data set among the names in a folder: the files of MNIST
// (train-images-idx3-ubyte and so on, with train, t10k or test, .gz or not),
// or train-x.npy, x_train.npy and so on. Of a file and its .gz the former
// counts. Invalid when there is none, a part of one, or more than one.
func pick(names []string) (roles, error) {
	sets := map[setKey]*roles{}
	for _, name := range slices.Sorted(slices.Values(names)) { // so a .gz comes after what it unpacks to
		key, role, ok := roleOf(name)
		if !ok {
			continue
		}
		if sets[key] == nil {
			sets[key] = &roles{idx: key.idx}
		}
		there := &sets[key].names[role]
		switch {
		case *there == "":
			*there = name
		case *there+".gz" != name:
			return roles{}, fault.New(importOp, fault.Invalid, "%s and %s are both the %s: leave one of them", *there, name, fileNames[role])
		}
	}
	switch len(sets) {
	case 0:
		return roles{}, fault.New(importOp, fault.Invalid, "no data set in the folder, which has: %s; want train-images-idx3-ubyte, train-labels-idx1-ubyte,"+
			" t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (.gz or not), or x_train.npy, y_train.npy, x_test.npy and y_test.npy", some(names))
	case 1:
	default:
		var firsts []string
		for _, set := range sets {
			firsts = append(firsts, cmp.Or(set.names[0], set.names[1], set.names[2], set.names[3]))
		}
		return roles{}, fault.New(importOp, fault.Invalid, "more than one data set in the folder (%s): put the one to use in a folder of its own", some(firsts))
	}
	found := *slices.Collect(maps.Values(sets))[0]
	for i := range 2 {
		if found.names[i] == "" {
			return roles{}, fault.New(importOp, fault.Invalid, "no %s beside %s in the folder", found.example(i), some(found.there()))
		}
	}
	for i := 2; i < 4; i++ {
		if found.names[i] == "" && found.names[5-i] != "" {
			return roles{}, fault.New(importOp, fault.Invalid, "no %s beside %s in the folder", found.example(i), found.names[5-i])
		}
	}
	return found, nil
}

// roleOf says which of fileNames a file is by its name.
func roleOf(name string) (key setKey, role int, ok bool) {
	lower := strings.ToLower(name)
	if array, ok := strings.CutSuffix(lower, ".npy"); ok {
		for role, r := range [...]struct{ axis, part string }{{"x", "train"}, {"y", "train"}, {"x", "test"}, {"y", "test"}} {
			switch strings.ReplaceAll(array, "_", "-") {
			case r.axis + "-" + r.part, r.part + "-" + r.axis:
				return setKey{}, role, true
			}
		}
		return setKey{}, 0, false
	}
	stem, typ, ok := strings.Cut(strings.Replace(strings.TrimSuffix(lower, ".gz"), ".idx", "-idx", 1), "-idx") // some say images.idx3-ubyte
	if !ok || typ == "" || strings.Contains(typ, ".") {
		return setKey{}, 0, false
	}
	for i, part := range [...]string{"train", "t10k", "test"} {
		for axis, what := range [...]string{"-images", "-labels"} {
			prefix, ok := strings.CutSuffix(stem, part+what)
			if ok && (prefix == "" || strings.ContainsAny(prefix[len(prefix)-1:], "-_.")) {
				return setKey{idx: true, prefix: prefix}, 2*min(i, 1) + axis, true
			}
		}
	}
	return setKey{}, 0, false
}

// example is what a missing file might be called.
func (r roles) example(role int) string {
	if r.idx {
		return [...]string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}[role]
	}
	return [...]string{"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"}[role]
}

// there are the files that were found.
func (r roles) there() []string {
	return slices.DeleteFunc(slices.Clone(r.names[:]), func(name string) bool { return name == "" })
}

// some lists names, the first ones if they are many.
func some(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	return strings.Join(names, ", ")
}
