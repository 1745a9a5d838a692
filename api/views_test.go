package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

func asked() *messages.TrainTask {
	return &messages.TrainTask{
		ModelType: "net", FunctionName: "mlp", Dataset: "digits", Epochs: 2, BatchSize: 64, Lr: 0.01, TrainSamples: 1437, TestSamples: 360,
		DatasetDigest: "d1", FunctionVersion: "v1",
		Options: &messages.TrainOptions{K: 16, Shuffle: proto.Bool(false), Seed: 1<<64 - 1, Chaos: &messages.ChaosPlan{Kill: 0.5, DiskFull: 0.25, StoreDownMs: 1500, Seed: 7}},
	}
}

func running(id string) *messages.JobView {
	return &messages.JobView{
		Id: id, Phase: messages.Phase_PHASE_RUNNING, Incarnation: 1, Task: asked(), Origin: "server", Parallelism: 4, Slots: 2,
		Epoch: 2, Round: 3, EpochSamples: 256, Loss: proto.Float64(0.5), Accuracy: proto.Float64(91), SamplesPerS: 1000, SubmittedMs: 1_700_000_000_000,
		QueuedS: proto.Float64(1.5), StartingS: proto.Float64(0.5), RunningS: proto.Float64(10.25), Life: 3, EtaS: proto.Float64(3), WaitingFor: "1 more slot",
		Epochs: []*messages.EpochRecord{{Epoch: 1, TrainLoss: 0.9, Parallelism: 2, Rounds: 4, Samples: 1437, DurationS: 0.25}}, Warnings: []string{"one"},
		Retries: 1, LostFunctions: 2, RejectedResults: 3,
	}
}

func finished(id string) *messages.JobView {
	epochs := []*messages.EpochRecord{
		{Epoch: 1, TrainLoss: 0.9, Parallelism: 2, Rounds: 4, Samples: 1437, DurationS: 0.25},
		{
			Epoch: 2, TrainLoss: 0.5, ValidationLoss: proto.Float64(0.25), Accuracy: proto.Float64(96.5), Parallelism: 3, Rounds: 5, Samples: 1437, DurationS: 0.5,
			TrainingS: 0.25, DroppedSamples: 1, Retries: 2, LostFunctions: 3, RejectedResults: 4, Backups: 5,
			RoundParallelism: []uint32{3, 3}, FreshOptimizers: []uint32{2}, Metrics: map[string]float64{"f1": 0.5},
		},
	}
	return &messages.JobView{
		Id: id, Phase: messages.Phase_PHASE_SUCCEEDED, Incarnation: 2, Task: asked(), Origin: "server", Parallelism: 3, Slots: 2, Epoch: 2, Round: 5,
		Accuracy: proto.Float64(96.5), SubmittedMs: 1_700_000_000_000, RunningS: proto.Float64(2), Epochs: epochs,
		Result: &messages.JobResult{
			Phase: messages.Phase_PHASE_SUCCEEDED, Epochs: epochs, Accuracy: proto.Float64(96.5), ValidationLoss: proto.Float64(0.25),
			Retries: 2, LostFunctions: 3, RejectedResults: 4, WallS: 1.5, WorkerS: 2.5, Model: "file:///m.safetensors",
		},
	}
}

// What a view says, its JSON says, and a client reads it back.
func TestViewsSurviveTheirJSON(t *testing.T) {
	for _, v := range []*messages.JobView{running("r"), finished("e")} {
		encoded, err := json.Marshal(jobjson.NewTaskDetails(v))
		require.NoError(t, err)
		var d jobjson.TaskDetails
		require.NoError(t, json.Unmarshal(encoded, &d))
		require.Truef(t, proto.Equal(v, d.View()), "%v\n%v", v, d.View())
	}
}
