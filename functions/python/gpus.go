package python

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// countGPUs says how many CUDA devices to use. Nothing of CUDA is touched: what
// the driver shows as files, or what CUDA_VISIBLE_DEVICES leaves of it.
func countGPUs(want string, getenv func(string) string) (int, error) {
	switch want {
	case "none":
		return 0, nil
	case "", "auto":
		devices, _ := filepath.Glob("/dev/nvidia[0-9]*")
		return visible(len(devices), getenv("CUDA_VISIBLE_DEVICES")), nil
	}
	n, err := strconv.Atoi(want)
	if err != nil || n < 0 {
		return 0, fault.New("python.new", fault.Invalid, "gpus %q: give auto, none, or how many", want)
	}
	return n, nil
}

// visible is how many of the devices CUDA will see: the list ends at the first
// entry that is none of them.
func visible(devices int, list string) int {
	if list == "" {
		return devices
	}
	n := 0
	for entry := range strings.SplitSeq(list, ",") {
		if i, err := strconv.Atoi(strings.TrimSpace(entry)); err == nil && (i < 0 || i >= devices) {
			break
		}
		n++
	}
	return min(n, devices)
}
