package train_test

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// A company of actors, one job on real data, and how it ended.
func ExampleNewTrainJob() {
	node := config.DefaultNode()
	dir, _ := os.MkdirTemp("", "troupe-example-")
	defer os.RemoveAll(dir)
	node.Store = "file://" + dir
	company, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer company.Close()

	job := train.NewTrainJob(zap.NewNop(), &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: 10, BatchSize: 16, Lr: 0.1,
		Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true},
	}, company)
	job.Train()
	fmt.Println(job.Result().GetPhase(), job.Err(), job.Result().GetAccuracy() >= 95)
	// Output: PHASE_SUCCEEDED <nil> true
}
