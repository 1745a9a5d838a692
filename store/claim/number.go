package claim

import (
	"context"
	"slices"
	"strconv"

	"github.com/troupe-ml/troupe/store"
)

// Numbers returns the numbers n, ascending, such that there is anything under
// prefix+n+"/". Errors are those of the store.
func Numbers(ctx context.Context, s store.Store, prefix string) ([]uint64, error) {
	numbers := []uint64{}
	for name, err := range s.Folders(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if n, ok := ParseNumber(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// ParseNumber reads a number as keys have it: decimal, no leading zeros.
func ParseNumber(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == name
}
