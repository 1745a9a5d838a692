package jobjson_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// FuzzDecodeTask: what is read is sound, and is written as it is read; all else
// is Invalid.
func FuzzDecodeTask(f *testing.F) {
	f.Add(`{"model_type":"m","batch_size":64,"epochs":1,"dataset":"digits","lr":0.1,"function_name":"mlp","options":{"k":-1,"max_time":"1h"}}`)
	f.Add(`{"function_name":"mlp","dataset":"digits","options":{"chaos":{"kill":0.1},"args":{"a":"b"},"function_timeout":0.0001,"seed":18446744073709551615}}`)
	f.Add(`{"lr":1e999}`)
	f.Fuzz(func(t *testing.T, body string) {
		task, err := jobjson.DecodeTask([]byte(body))
		if err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			return
		}
		encoded, err := jobjson.NewTrainRequest(task).Options.MarshalJSON()
		require.NoError(t, err)
		var again jobjson.Options
		require.NoError(t, again.UnmarshalJSON(encoded))
		require.Truef(t, proto.Equal(task.GetOptions(), again.TrainOptions), "%s\n%v\n%v", encoded, task.GetOptions(), again.TrainOptions)
	})
}
