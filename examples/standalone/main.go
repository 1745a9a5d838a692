// Command standalone drives one job over HTTP, as KubeML's job is driven, from its
// start to a trained model. The functions of the job are HTTP endpoints:
//
//	troupe serve --function mlp --port 8001 &
//	troupe serve --function mlp --port 8002 &
//	go run ./examples/standalone http://127.0.0.1:8001 http://127.0.0.1:8002
//
// With a program (troupe serve --code net.py) it is the same.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("give the URLs of endpoints, such as those of troupe serve --function mlp --port 8001")
	}
	if err := run(config.DefaultNode(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains a job whose functions are at urls, and tells how it goes.
func run(node config.Node, urls []string, out io.Writer) (err error) {
	company, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, company.Close()) }()
	if _, err := company.Functions().Link(context.Background(), "net", urls); err != nil {
		return err
	}
	id := strings.ToLower(rand.Text()) // a job of that id goes on where it was, so that each has its own
	job := train.NewBasicJob(zap.NewNop(), id)
	job.Use(company)
	listener, err := train.Listen(0)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- job.ServeOn(context.Background(), listener) }()

	driven := drive("http://"+listener.Addr().String(), id, out)
	if driven != nil { // else it has ended by itself
		_ = company.StopJob(context.Background(), id, "its driver has failed")
		_ = company.Close()
	}
	if err := errors.Join(driven, <-served, job.Err()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", job.Result().GetPhase(), job.Result().GetModel())
	return nil
}

// drive does what a program anywhere on this machine can do: it knows the job by
// its URL alone, and speaks KubeML's JSON.
func drive(url, id string, out io.Writer) error {
	task := `{
		"request": {
			"model_type": "net", "batch_size": 32, "epochs": 4, "dataset": "digits", "lr": 0.1, "function_name": "net",
			"options": {"default_parallelism": 2, "static_parallelism": true, "validate_every": 1, "k": 8, "goal_accuracy": 100}
		},
		"job": {"id": "` + id + `", "state": {"parallelism": 2, "elapsed_time": 0}}
	}`
	response, err := http.Post(url+"/start", "application/json", strings.NewReader(task))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(response.Body)
		return fmt.Errorf("start: %s: %s", response.Status, why)
	}
	for told := 0; ; time.Sleep(100 * time.Millisecond) {
		h, err := look(url)
		if err != nil {
			return err
		}
		for ; told < len(h.Data.TrainLoss); told++ {
			fmt.Fprintf(out, "epoch %d: loss %.3f, %.1f %% right\n", told+1, h.Data.TrainLoss[told], h.Data.Accuracy[told])
		}
		if h.Job.Result != nil {
			return nil
		}
	}
}

// history is what a program like this wants to know of it.
type history struct {
	Data struct {
		TrainLoss []float64 `json:"train_loss"`
		Accuracy  []float64 `json:"accuracy"`
	} `json:"data"`
	Job struct {
		Result *struct{} `json:"result"` // once it has ended
	} `json:"job"`
}

func look(url string) (h history, err error) {
	response, err := http.Get(url + "/history")
	if err != nil {
		return h, err
	}
	defer response.Body.Close()
	return h, json.NewDecoder(response.Body).Decode(&h)
}
