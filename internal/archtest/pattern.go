package archtest

import (
	"slices"
	"strings"
)

// matches reports whether a pattern (see rule) matches a path.
func matches(pattern, path string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, element := range want {
		if element == "..." {
			return true
		}
		if i >= len(have) || element != "*" && element != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, path) })
}

// decide returns the most literal rule that matches a path.
func decide(rules []rule, path string) (rule, bool) {
	var best rule
	most := -1
	for _, r := range rules {
		if n := literals(r.packages); matches(r.packages, path) && n > most {
			best, most = r, n
		}
	}
	return best, most >= 0
}

// literals counts the elements of a pattern that stand for themselves.
func literals(pattern string) int {
	n := 0
	for _, element := range strings.Split(pattern, "/") {
		if element != "*" && element != "..." {
			n++
		}
	}
	return n
}

// sameTree reports whether two paths lie in one tree of a pattern: under
// "actors/*/..." actors/train and actors/train/x do, actors/host does not.
func sameTree(pattern, path, other string) bool {
	depth := strings.Count(strings.TrimSuffix(pattern, "/..."), "/") + 1
	if !strings.HasSuffix(pattern, "/...") {
		return path == other
	}
	a, b := strings.Split(path, "/"), strings.Split(other, "/")
	return len(a) >= depth && len(b) >= depth && slices.Equal(a[:depth], b[:depth])
}
