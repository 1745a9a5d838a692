package jobjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

func TestDecodeTaskReadsEveryOption(t *testing.T) {
	got, err := jobjson.DecodeTask([]byte(`{"model_type":"net","batch_size":32,"epochs":5,"dataset":"digits","lr":1e-3,"function_name":"mlp","options":{
		"default_parallelism":2,"min_parallelism":2,"max_parallelism":8,"static_parallelism":true,"k":-1,"merge":"median","clip":1.5,
		"optimizer_state":"reset","compress":"int8","lr_scale":"sqrt","warmup":0.5,"validate_every":0.25,"goal_accuracy":99.5,"patience":3,"max_time":"1h","keep":"best",
		"shuffle":false,"seed":18446744073709551615,"retries":0,"min_functions":2,"function_timeout":90.5,"backup":false,"on_bad_samples":"fail",
		"checkpoint_every":"10s","init":"j1","init_partial":true,"args":{"a":"1"},"env":{"B":"2"},"require_labels":{"gpu":"a100"},"priority":-3,"chaos":"kill=0.5,seed=7"}}`))
	require.NoError(t, err)
	want := &messages.TrainTask{
		ModelType: "net", BatchSize: 32, Epochs: 5, Dataset: "digits", Lr: 0.001, FunctionName: "mlp",
		Options: &messages.TrainOptions{
			DefaultParallelism: 2, MinParallelism: 2, MaxParallelism: 8, StaticParallelism: true, K: -1, Merge: "median", Clip: 1.5,
			OptimizerState: "reset", Compress: "int8", LrScale: "sqrt", Warmup: 0.5, ValidateEvery: 0.25, GoalAccuracy: 99.5, Patience: 3, MaxTimeMs: 3_600_000, Keep: "best",
			Shuffle: proto.Bool(false), Seed: 1<<64 - 1, Retries: proto.Uint32(0), MinFunctions: 2, FunctionTimeoutMs: 90_500, Backup: proto.Bool(false),
			OnBadSamples: "fail", CheckpointEveryMs: 10_000, Init: "j1", InitPartial: true, Args: map[string]string{"a": "1"},
			Env: map[string]string{"B": "2"}, RequireLabels: map[string]string{"gpu": "a100"}, Priority: -3, Chaos: &messages.ChaosPlan{Kill: 0.5, Seed: 7},
		},
	}
	require.Truef(t, proto.Equal(want, got), "%v", got)
	requireEveryFieldSet(t, got.GetOptions())
	encoded, err := json.Marshal(jobjson.NewTrainRequest(got))
	require.NoError(t, err)
	again, err := jobjson.DecodeTask(encoded)
	require.NoError(t, err)
	require.Truef(t, proto.Equal(want, again), "what is written is read: %s", encoded)
}

// A new option must be in the table, and in the test above.
func requireEveryFieldSet(t *testing.T, m proto.Message) {
	t.Helper()
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		require.True(t, m.ProtoReflect().Has(fields.Get(i)), "%s is not an option over HTTP", fields.Get(i).Name())
	}
}

func TestMissingNullAndZeroOptionsAreDefaults(t *testing.T) {
	want, err := task.Resolve(&messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
	require.NoError(t, err)
	for _, body := range []string{
		`{"function_name":"mlp","dataset":"digits"}`,
		`{"function_name":"mlp","dataset":"digits","options":null,"epochs":null,"lr":null,"batch_size":null,"model_type":null}`,
		`{"function_name":"mlp","dataset":"digits","options":{}}`,
		`{"function_name":"mlp","dataset":"digits","options":{"k":0,"validate_every":0,"default_parallelism":0,"min_parallelism":0,"max_parallelism":0,
			"min_functions":0,"function_timeout":0,"clip":0,"goal_accuracy":0,"patience":0,"max_time":0,"checkpoint_every":0}}`,
		`{"function_name":"mlp","dataset":"digits","options":{"k":null,"shuffle":null,"retries":null,"chaos":null,"args":null,"seed":null,
			"checkpoint_every":"auto"}}`,
		`{"function_name":"mlp","dataset":"digits","options":{"chaos":"none"}}`,
		`{"function_name":"mlp","dataset":"digits","options":{"chaos":{},"args":{},"seed":0,"priority":0,"warmup":0,"static_parallelism":false}}`,
	} {
		got, err := jobjson.DecodeTask([]byte(body))
		require.NoError(t, err, body)
		require.Truef(t, proto.Equal(want, got), "%s: %v", body, got)
	}
}

func TestChaosIsTextOrAnObject(t *testing.T) {
	for _, body := range []string{
		`"kill=0.1,disk-full=0.2,store-down=10s,seed=7"`,
		`{"kill":0.1,"disk-full":0.2,"store-down":"10s","seed":7}`,
		`{"kill":0.1,"disk_full":0.2,"store_down":"10s","seed":7,"nan":null}`,
	} {
		got, err := jobjson.DecodeTask([]byte(`{"function_name":"mlp","dataset":"digits","options":{"chaos":` + body + `}}`))
		require.NoError(t, err, body)
		require.True(t, proto.Equal(&messages.ChaosPlan{Kill: 0.1, DiskFull: 0.2, StoreDownMs: 10_000, Seed: 7}, got.GetOptions().GetChaos()), body)
	}
}

func TestDecodeTaskRefuses(t *testing.T) {
	const head = `{"function_name":"mlp","dataset":"digits",`
	for body, says := range map[string]string{
		``:                               "it is no JSON object",
		`null`:                           "it is no JSON object",
		`[]`:                             "it is no JSON object",
		`{`:                              "no JSON",
		`{"epochs":}`:                    `the value of "epochs" is no JSON`,
		`{"epochs":NaN}`:                 `the value of "epochs" is no JSON`,
		`{"epochs":1}{}`:                 "something behind its end",
		`{"epochs":1,"epochs":2}`:        `"epochs" is given twice`,
		"{\"dataset\":\"\xff\"}":         "not UTF-8",
		`{}`:                             "function: no name given",
		`{"function_name":"mlp"}`:        "dataset: no name given",
		head + `"epocs":1}`:              `there is no field "epocs": did you mean "epochs"?`,
		head + `"Epochs":1}`:             `there is no field "Epochs": did you mean "epochs"?`,
		head + `"epochs":0}`:             "epochs 0: give a whole number from 1 to 1000000",
		head + `"epochs":-1}`:            "epochs -1",
		head + `"epochs":1.5}`:           "epochs 1.5",
		head + `"epochs":"5"}`:           `epochs "5"`,
		head + `"epochs":1e999}`:         "epochs 1e999",
		head + `"batch_size":0}`:         "batch_size 0: give a whole number from 1 to 65536",
		head + `"batch_size":65537}`:     "batch_size 65537",
		head + `"batch_size":true}`:      "batch_size true",
		head + `"lr":0}`:                 "lr 0: give a finite number above 0",
		head + `"lr":-0.1}`:              "lr -0.1",
		head + `"lr":1e999}`:             "lr 1e999: give a number",
		head + `"lr":"NaN"}`:             `lr "NaN": give a number`,
		head + `"options":[]}`:           "options: it is no JSON object",
		head + `"options":{"kay":1}}`:    `options: there is no field "kay": want one of: default_parallelism, min_parallelism,`,
		head + `"options":{"k":"auto"}}`: `options.k "auto": give a whole number`,
		head + `"options":{"k":-2}}`:     "K -2: give",
		head + `"options":{"k":1e10}}`:   "options.k 10000000000: give a whole number from",
		head + `"options":{"default_parallelism":-1}}`:                "options.default_parallelism -1: give a whole number from 0 to 65536",
		head + `"options":{"max_parallelism":65537}}`:                 "options.max_parallelism 65537: give a whole number from 0 to 65536",
		head + `"options":{"patience":1e7}}`:                          "options.patience 10000000: give a whole number from 0 to 1000000",
		head + `"options":{"seed":-1}}`:                               "options.seed -1: give a whole number from 0",
		head + `"options":{"shuffle":0}}`:                             "options.shuffle 0: give true or false",
		head + `"options":{"retries":-1}}`:                            "options.retries -1",
		head + `"options":{"clip":-1}}`:                               "clip -1",
		head + `"options":{"merge":3}}`:                               "options.merge 3: give text",
		head + `"options":{"merge":"x"}}`:                             `merge "x" does not exist`,
		head + `"options":{"args":{"a":1}}}`:                          "options.args.a 1: give text",
		head + `"options":{"args":{"":"1"}}}`:                         `arg "=1"`,
		head + `"options":{"env":{"A=B":"1"}}}`:                       "env",
		head + `"options":{"function_timeout":"90"}}`:                 `options.function_timeout "90": give seconds, or a duration`,
		head + `"options":{"function_timeout":-1}}`:                   "options.function_timeout -1",
		head + `"options":{"function_timeout":1e300}}`:                "options.function_timeout 1e300",
		head + `"options":{"function_timeout":"auto"}}`:               `options.function_timeout "auto"`,
		head + `"options":{"function_timeout":"100000h"}}`:            "options.function_timeout",
		head + `"options":{"function_timeout":"1000h"}}`:              "function-timeout",
		head + `"options":{"chaos":"fire=1"}}`:                        `there is no "fire"`,
		head + `"options":{"chaos":{"kill":"1,hang=1"}}}`:             "no name with a value",
		head + `"options":{"chaos":{"kill":2}}}`:                      "chaos kill=2",
		head + `"options":{"chaos":true}}`:                            "options.chaos true: give text",
		head + `"options":{"init":"/etc/passwd"}}`:                    "model name",
		head + `"options":{"init":"m.safetensors"}}`:                  "that of a file",
		`{"function_name":"/tmp/x.py","dataset":"digits"}`:            "function name",
		`{"function_name":"x.py","dataset":"digits"}`:                 "that of a file",
		`{"function_name":"..","dataset":"digits"}`:                   "function name",
		`{"function_name":"mlp","dataset":"/etc/d"}`:                  "data set name",
		`{"function_name":"mlp","dataset":"d.CSV"}`:                   "that of a file",
		`{"function_name":"mlp","dataset":".."}`:                      "data set name",
		`{"function_name":"mlp","dataset":"d","model_type":"\u0000"}`: "model_type",
	} {
		_, err := jobjson.DecodeTask([]byte(body))
		require.ErrorContains(t, err, says, body)
		require.Equal(t, fault.Invalid, fault.KindOf(err), body)
	}
}

func TestALaterServerMaySayMore(t *testing.T) {
	var task jobjson.Task
	require.NoError(t, json.Unmarshal([]byte(`{"request":{"options":{"later":1,"k":3},"more":1},"job":{"id":"a"},"phase":"DREAMING"}`), &task))
	require.EqualValues(t, 3, task.View().GetTask().GetOptions().GetK())
	require.Equal(t, messages.Phase_PHASE_UNSPECIFIED, task.View().GetPhase())
}
