package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// keys is a space of keys without bytes.
type keys []string

func (k *keys) List(prefix string) []string {
	var found []string
	for _, key := range *k {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	return found
}

func (k *keys) Remove(gone ...string) error {
	*k = slices.DeleteFunc(*k, func(key string) bool { return slices.Contains(gone, key) })
	return nil
}

func TestReleaseGoesByTheKey(t *testing.T) {
	held := keys{
		"j/1/0-0-0-1-1/model", // init
		"j/1/1-1-0-1-2/model", "j/1/1-1-0-1-2/optimizer", "j/1/1-1-10-1-3/model",
		"j/1/1-2-0-1-4/model",
		"j/1/2-1-0-1-5/model",
		"j/2/1-1-0-1-6/model",
		"jj/1/1-1-0-1-7/model",
		"j/1/merged/model-2", "j/1/1-1-0-1/model", "j/1/1-1-0-x-8/model", "j/1/1-1-0-1-2/notes", "j/model", // not answers
	}
	for name, c := range map[string]struct {
		release *messages.ReleaseTensors
		gone    []int
	}{
		"a step and all before it":       {&messages.ReleaseTensors{Step: step(1, 1, 1)}, []int{0, 1, 2, 3}},
		"but what is kept":               {&messages.ReleaseTensors{Step: step(1, 1, 2), Keep: []string{held[0], held[2]}}, []int{1, 3, 4}},
		"a later epoch is a later step":  {&messages.ReleaseTensors{Step: step(1, 2, 1)}, []int{0, 1, 2, 3, 4, 5}},
		"a higher incarnation, too":      {&messages.ReleaseTensors{Step: step(2, 1, 1), Keep: []string{held[6]}}, []int{0, 1, 2, 3, 4, 5}},
		"everything of an incarnation":   {&messages.ReleaseTensors{Step: step(1, 1, 1), Everything: true}, []int{0, 1, 2, 3, 4, 5}},
		"everything of all incarnations": {&messages.ReleaseTensors{Step: step(2, 0, 0), Everything: true}, []int{0, 1, 2, 3, 4, 5, 6}},
		"nothing yet":                    {&messages.ReleaseTensors{Step: &messages.AttemptRef{Job: &messages.JobRef{Id: "other"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			space := slices.Clone(held)
			require.NoError(t, host.Release(&space, c.release))
			var want keys
			for i, key := range held {
				if !slices.Contains(c.gone, i) {
					want = append(want, key)
				}
			}
			require.Equal(t, want, space)
		})
	}
}

// Copies of other nodes' tensors go as answers do, and those of what was merged as
// soon as nothing begins with it any more.
func TestReleaseFreesCopies(t *testing.T) {
	copyOf := func(key string) string { return plane.CopyKey(plane.Ref{Node: "other", Key: key, Bytes: 1, Digest: 2}) }
	held := keys{
		copyOf("j/1/1-1-0-1-2/model"), copyOf("j/1/1-1-1-1-2/optimizer"), copyOf("j/1/1-2-0-1-4/model"),
		copyOf("j/1/merged/model-1"), copyOf("j/1/merged/model-2"), copyOf("j/2/merged/model-3"), copyOf("j/x"), "j/1/merged/model-1",
	}
	for name, c := range map[string]struct {
		release *messages.ReleaseTensors
		left    keys
	}{
		"after a merge": {&messages.ReleaseTensors{Step: step(1, 1, 1), Keep: []string{"j/1/merged/model-2", "j/1/1-1-1-1-2/optimizer"}}, keys{held[1], held[2], held[4], held[5], held[7]}},
		"at the end":    {&messages.ReleaseTensors{Step: step(1, 1, 1), Everything: true}, keys{held[5], held[7]}},
	} {
		space := slices.Clone(held)
		require.NoError(t, host.Release(&space, c.release))
		require.Equal(t, c.left, space, name)
	}
}

func step(incarnation uint64, epoch, round uint32) *messages.AttemptRef {
	return &messages.AttemptRef{Job: &messages.JobRef{Id: "j", Incarnation: incarnation}, Epoch: epoch, Round: round}
}

func TestAnAnswersKeyIsOneOfItsStep(t *testing.T) {
	attempt := ref("j", 3, 4, 5)
	space := keys{host.AnswerKey(attempt, 6, "model"), host.AnswerKey(attempt, 7, "optimizer")}
	require.Equal(t, keys{"j/1/1-3-4-5-6/model", "j/1/1-3-4-5-7/optimizer"}, space)
	require.NoError(t, host.Release(&space, &messages.ReleaseTensors{Step: attempt}))
	require.Empty(t, space)
}
