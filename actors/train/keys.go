package train

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/messages"
)

// key names a tensor of the job's own, beside the answers of its functions:
//
//	<job>/<incarnation>/merged/<name>
func (j *job) key(name string) string {
	return fmt.Sprintf("%s/%d/merged/%s", j.state.ref.GetId(), j.state.ref.GetIncarnation(), name)
}

// isMerged reports whether a key is one that a TrainJob of an incarnation made,
// or one of a lower: theirs to remove. What a higher one makes is not, however
// late the removal comes.
func isMerged(key string, by *messages.JobRef) bool {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) != 4 || parts[0] != by.GetId() || parts[2] != "merged" {
		return false
	}
	incarnation, err := strconv.ParseUint(parts[1], 10, 64)
	return err == nil && incarnation <= by.GetIncarnation()
}
