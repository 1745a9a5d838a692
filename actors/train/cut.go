package train

// blockSamples is the least size of a validation block. Blocks depend on the
// batch size and the test set alone, so sums come out the same whatever N is.
const blockSamples = 512

// cut takes one round's assignments out of what an epoch still has to do:
// min(n*k*batch, all) positions, all of them when k is -1 or when less than
// n*batch would remain, split over n functions in sizes that differ by at most
// one. Functions that would get none get no assignment, so there are at most n.
func cut(todo ranges, n, k, batch uint64, whole bool) (assignments []ranges, rest ranges) {
	left := todo.total()
	take := left
	if size := n * k * batch; !whole && size < left && left-size >= n*batch {
		take = size
	}
	rest = todo
	for i := uint64(0); i < n; i++ {
		size := take / n
		if i < take%n {
			size++
		}
		if size == 0 {
			break
		}
		var part ranges
		part, rest = rest.take(size)
		assignments = append(assignments, part)
	}
	return assignments, rest
}

// blocks cuts the test positions [0, n) into validation blocks: whole batches,
// at least blockSamples each but for the last.
func blocks(n, batch uint64) []ranges {
	size := (blockSamples + batch - 1) / batch * batch
	var out []ranges
	for lo := uint64(0); lo < n; lo += size {
		out = append(out, ranges{{lo, min(lo+size, n)}})
	}
	return out
}
