package train

import (
	"fmt"
	"strings"
)

// key names a tensor of the job's own, beside the answers of its functions:
//
//	<job>/<incarnation>/merged/<name>
func (j *job) key(name string) string {
	return fmt.Sprintf("%s/%d/merged/%s", j.state.ref.GetId(), j.state.ref.GetIncarnation(), name)
}

// isMerged reports whether a key is one that TrainJobs make, of whichever
// incarnation: theirs to remove.
func isMerged(key string) bool {
	parts := strings.SplitN(key, "/", 4)
	return len(parts) == 4 && parts[2] == "merged"
}

// isOwn reports whether a key is one that this job may remove.
func (j *job) isOwn(key string) bool {
	return strings.HasPrefix(key, j.state.ref.GetId()+"/") && isMerged(key)
}
