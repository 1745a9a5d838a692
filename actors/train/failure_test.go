package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
)

func TestJudge(t *testing.T) {
	crash := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_UNAVAILABLE, Text: "killed"}
	raise := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "boom"}
	other := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "bang"}
	reject := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Text: "NaN in w"}
	chaos := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Text: "NaN in w", Chaos: true}
	wrong := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_INVALID, Text: "no such argument"}
	for name, c := range map[string]struct {
		failures           []*messages.Failure
		retries            uint32
		retry, lost, fatal bool
	}{
		"a crash is tried again":                       {[]*messages.Failure{crash}, 3, true, false, false},
		"crashes end with the retries":                 {[]*messages.Failure{crash, crash, crash, crash}, 3, false, true, false},
		"no retries, no second attempt":                {[]*messages.Failure{crash}, 0, false, true, false},
		"an exception is tried again once":             {[]*messages.Failure{raise}, 3, true, false, false},
		"the same exception again ends the job":        {[]*messages.Failure{raise, crash, raise}, 3, false, false, true},
		"another exception does not":                   {[]*messages.Failure{raise, other}, 3, true, false, false},
		"the same rejection again ends the job":        {[]*messages.Failure{reject, reject}, 3, false, false, true},
		"rejections by chaos do not count":             {[]*messages.Failure{chaos, chaos}, 3, true, false, false},
		"a rejection that looks like chaos counts one": {[]*messages.Failure{chaos, reject}, 3, true, false, false},
		"a wrong request ends the job at once":         {[]*messages.Failure{wrong}, 3, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			retry, lost, fatal, _ := train.Judge(c.failures, c.retries, 2, false)
			require.Equal(t, []bool{c.retry, c.lost, c.fatal}, []bool{retry, lost, fatal})
		})
	}
}

func TestBackOffDoublesFromTheSecondRetryAndIsBounded(t *testing.T) {
	crash := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_UNAVAILABLE}
	var failures []*messages.Failure
	for i := range 40 {
		failures = append(failures, crash)
		_, _, _, after := train.Judge(failures, 100, 2, false)
		if i == 0 {
			require.Zero(t, after, "the first retry comes at once")
			continue
		}
		want := 5 * time.Second
		if i < 10 {
			want = min(want, 100*time.Millisecond<<(i-1))
		}
		require.GreaterOrEqual(t, after, want/2)
		require.LessOrEqual(t, after, want)
	}
}
