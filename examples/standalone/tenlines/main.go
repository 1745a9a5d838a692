// Command tenlines trains a job whose task is known: NewTrainJob(…).Train().
package main

import (
	"fmt"
	"log"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

func main() {
	company, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: config.DefaultNode()})
	if err != nil {
		log.Fatal(err)
	}
	defer company.Close()
	fmt.Println(trained(company))
}

func trained(company train.Company) (string, error) {
	job := train.NewTrainJob(zap.NewNop(), &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: 5, BatchSize: 16, Lr: 0.1,
	}, company)
	job.K = 8
	job.Train()
	return job.Result().GetModel(), job.Err()
}
