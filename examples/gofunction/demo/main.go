// Command demo trains a Go function of its own on handwritten digits: a company
// of actors in this process, a job, and a line for each epoch.
//
//	go run ./examples/gofunction/demo
//	go run ./examples/gofunction/demo -isolate    # functions in processes of their own
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/examples/gofunction"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/messages"
)

func main() {
	actors.Isolated(gofunction.Centroids()) // in the processes of -isolate this is all that runs
	isolate := flag.Bool("isolate", false, "run the functions in processes of their own")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	node := config.DefaultNode()
	node.Isolate = *isolate
	node.Store = "mem://" // nothing is kept; config.DefaultNode's store would keep the model
	if err := run(ctx, node, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains centroids with four functions a round and tells how it goes.
func run(ctx context.Context, node config.Node, out io.Writer) error {
	company, err := actors.Start(actors.Config{
		Log: zap.NewNop(), Node: node,
		Functions: []native.Function{gofunction.Centroids()},
	})
	if err != nil {
		return err
	}
	defer company.Close()
	job, err := company.StartJob(ctx, &messages.TrainTask{
		FunctionName: "centroids", Dataset: "digits", Epochs: 2, BatchSize: 32, Lr: 0.01,
		Options: &messages.TrainOptions{DefaultParallelism: 4, StaticParallelism: true},
	})
	if err != nil {
		return err
	}
	result, err := company.WatchJob(ctx, job.ID, func(e *messages.JobEvent) {
		if r := e.GetEpochFinished().GetRecord(); r != nil {
			fmt.Fprintf(out, "epoch %d: %d samples, %.1f %% right\n", r.GetEpoch(), r.GetSamples(), r.GetAccuracy())
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, result.GetPhase())
	return nil
}
