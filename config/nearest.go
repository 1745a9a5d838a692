package config

import (
	"fmt"
	"strings"
)

// minPrefix is from which length on the beginning of a name may stand for it.
const minPrefix = 3

// DidYouMean is what an error about an unknown name says to whoever typed it:
// the name that was meant, if one is near; else which there are.
func DidYouMean(typed string, names []string) string {
	if near := Nearest(typed, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "want one of: " + strings.Join(names, ", ")
}

// Nearest returns the name that takes the fewest changes to make of what was
// typed, upper case, "-" and "_" aside; "" where that would change more than a
// third of it, and neither is the beginning of the other.
func Nearest(typed string, names []string) string {
	typed = plain(typed)
	best, least := "", (len(typed)+1)/3+1
	for _, name := range names {
		other := plain(name)
		if d := distance(typed, other); d < least {
			best, least = name, d
		} else if best == "" && begins(typed, other) {
			best = name // unless another one is nearer
		}
	}
	return best
}

func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

func begins(a, b string) bool {
	return min(len(a), len(b)) >= minPrefix && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// distance is how many bytes must be changed, added, removed, or swapped with
// their neighbour, to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
