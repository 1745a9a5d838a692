package jobjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// KubeML's TrainTask and a TrainRequest alone are the same task.
func TestDecodeStart(t *testing.T) {
	const request = `{"model_type":"net","batch_size":16,"epochs":3,"dataset":"digits","lr":0.01,"function_name":"mlp","options":{"k":8}}`
	want, size, err := jobjson.DecodeStart("j", []byte(request))
	require.NoError(t, err)
	require.Zero(t, size)
	require.EqualValues(t, 8, want.GetOptions().GetK())
	for body, parallelism := range map[string]uint32{
		`{"request":` + request + `}`:                                                                                   0,
		`{"request":` + request + `,"job":null}`:                                                                        0,
		`{"request":` + request + `,"job":{"id":""}}`:                                                                   0,
		`{"request":` + request + `,"job":{"state":null}}`:                                                              0,
		`{"job":{"id":"j","state":{}},"request":` + request + `}`:                                                       0,
		`{"request":` + request + `,"job":{"id":"j","state":{"parallelism":0}}}`:                                        0,
		`{"request":` + request + `,"job":{"id":"j","state":{"parallelism":3,"elapsed_time":1.5},"pod":{},"svc":null}}`: 3,
	} {
		task, size, err := jobjson.DecodeStart("j", []byte(body))
		require.NoError(t, err, body)
		require.True(t, proto.Equal(want, task), body)
		if parallelism == 0 && size.Parallelism == nil {
			continue
		}
		require.Equal(t, parallelism, *size.Parallelism, body)
	}
	written, err := json.Marshal(jobjson.NewStart("j", want, jobjson.Update{Parallelism: new(uint32(5)), Slots: new(uint32(2))}))
	require.NoError(t, err)
	task, size, err := jobjson.DecodeStart("j", written)
	require.NoError(t, err)
	require.True(t, proto.Equal(want, task))
	require.Equal(t, jobjson.Update{Parallelism: new(uint32(5)), Slots: new(uint32(2))}, size)

	for body, says := range map[string]string{
		``:                 "no JSON object",
		`{"request":null}`: "no JSON object",
		`{"request":` + request + `,"job":{"id":"k"}}`:                        `job.id "k": this is job j`,
		`{"request":` + request + `,"job":{"id":7}}`:                          "job.id 7: give text",
		`{"request":` + request + `,"job":{"name":"j"}}`:                      `there is no field "name"`,
		`{"request":` + request + `,"epochs":3}`:                              `there is no field "epochs"`,
		`{"request":` + request + `,"job":{"state":{"parallelism":65537}}}`:   "job.state.parallelism 65537",
		`{"request":` + request + `,"job":{"state":{"slots":-1}}}`:            "job.state.slots -1",
		`{"request":` + request + `,"job":{"state":{"elapsed_time":"long"}}}`: "job.state.elapsed_time",
		`{"job":{"id":"j"}}`: `there is no field "job"`,
	} {
		_, _, err := jobjson.DecodeStart("j", []byte(body))
		require.ErrorContains(t, err, says, body)
		require.Equal(t, fault.Invalid, fault.KindOf(err), body)
	}
}

func TestDecodeUpdate(t *testing.T) {
	both, err := jobjson.DecodeUpdate([]byte(`{"parallelism":2,"elapsed_time":12,"slots":0}`))
	require.NoError(t, err)
	require.Equal(t, jobjson.Update{Parallelism: new(uint32(2)), Slots: new(uint32(0))}, both)
	one, err := jobjson.DecodeUpdate([]byte(`{"parallelism":null,"slots":4}`))
	require.NoError(t, err)
	require.Equal(t, jobjson.Update{Slots: new(uint32(4))}, one)
	for body, says := range map[string]string{
		`{}`:                  "there is neither parallelism nor slots",
		`{"elapsed_time":1}`:  "there is neither parallelism nor slots",
		`{"parallelism":0}`:   "request.parallelism 0: give a whole number from 1",
		`{"parallelism":1.5}`: "request.parallelism 1.5",
		`{"slots":-1}`:        "request.slots -1",
		`{"n":1}`:             `there is no field "n"`,
	} {
		_, err := jobjson.DecodeUpdate([]byte(body))
		require.ErrorContains(t, err, says, body)
		require.Equal(t, fault.Invalid, fault.KindOf(err), body)
	}
}
