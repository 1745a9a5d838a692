package actors

import (
	"context"
	"io"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/model"
)

// results stores what jobs have trained in the model catalog.
type results struct {
	catalog *model.Catalog
	rim     actorkit.Rim // dates the cards
}

var _ train.Models = (*results)(nil)

// Save implements train.Models.
func (r *results) Save(ctx context.Context, job *messages.JobRef, task *messages.TrainTask, result *messages.JobResult, blob plane.Blob) (string, error) {
	return r.catalog.Save(ctx, job.GetId(), job.GetIncarnation(), r.card(task, result), func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(blob, 0, blob.Size()))
		return err
	})
}

// card describes a result.
func (r *results) card(task *messages.TrainTask, result *messages.JobResult) model.Card {
	c := model.Card{
		Function: task.GetFunctionName(), Dataset: task.GetDatasetName(), DatasetDigest: task.GetDatasetDigest(),
		Epochs: len(result.GetEpochs()), Accuracy: result.Accuracy, ValidationLoss: result.ValidationLoss,
		Merge: result.GetMerge(), Seed: task.GetOptions().GetSeed(), Created: r.rim.Now(),
	}
	if last := len(result.GetEpochs()) - 1; last >= 0 {
		c.TrainLoss = result.GetEpochs()[last].GetTrainLoss()
		c.Parallelism = int(result.GetEpochs()[last].GetParallelism())
	}
	return c
}
