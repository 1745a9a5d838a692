package functions

// Batches cuts n samples into batches of at most batch samples: ceil(n/batch)
// of them, whose sizes differ by at most one, the larger first. So 65 samples
// at 64 are 33 and 32, and from a batch of 3 on, one of 1 occurs only when there
// is but one sample. It returns nil when n or batch is below 1.
func Batches(n, batch int) []int {
	if n < 1 || batch < 1 {
		return nil
	}
	count := (n-1)/batch + 1
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = n / count
		if i < n%count {
			sizes[i]++
		}
	}
	return sizes
}
