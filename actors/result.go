package actors

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/model"
)

// results stores what jobs have trained in the model catalog.
type results struct {
	catalog *model.Catalog
	cache   *cache.Cache // for models that are being read
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

// card describes a result: the numbers are those of the model's epoch.
func (r *results) card(task *messages.TrainTask, result *messages.JobResult) model.Card {
	c := model.Card{
		Function: task.GetFunctionName(), Dataset: task.GetDatasetName(), DatasetDigest: task.GetDatasetDigest(),
		Epochs: len(result.GetEpochs()), Accuracy: result.Accuracy, ValidationLoss: result.ValidationLoss,
		FunctionVersion: task.GetFunctionVersion(), Args: task.GetOptions().GetArgs(),
		Merge: result.GetMerge(), Seed: task.GetOptions().GetSeed(), Created: r.rim.Now(),
	}
	if at := int(result.GetModelEpoch()) - 1; at >= 0 && at < len(result.GetEpochs()) {
		if loss := result.GetEpochs()[at].GetTrainLoss(); !math.IsNaN(loss) {
			c.TrainLoss = &loss
		}
		c.Parallelism = int(result.GetEpochs()[at].GetParallelism())
	}
	return c
}

// Open opens a model to start from: a .safetensors file by its path, or a
// stored model by its id. NotFound, Invalid, Corrupt, Unavailable.
func (r *results) Open(ctx context.Context, name string) (plane.Blob, error) {
	if strings.HasSuffix(name, ".safetensors") {
		return openFile(name)
	}
	m, err := r.catalog.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.open(ctx, m)
}

// open opens a stored model on this machine. It stays there until it is closed.
func (r *results) open(ctx context.Context, m model.Model) (plane.Blob, error) {
	f, err := r.cache.Open(ctx, "models/"+m.SHA256, cache.Object{Name: "model.safetensors", Key: m.Key, Bytes: m.Bytes, SHA256: m.SHA256})
	if err != nil {
		return nil, fault.New("actors.model", fault.KindOf(err), "model %s: %w", m.ID, err)
	}
	return &file{File: f, size: m.Bytes}, nil
}

// file is a plane.Blob that is an open file.
type file struct {
	*os.File
	size int64
}

var _ plane.Blob = (*file)(nil)

func openFile(path string) (plane.Blob, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New("actors.model", fault.NotFound, "there is no file %q", path)
	}
	if err != nil {
		return nil, fault.New("actors.model", fault.Unavailable, "open %q: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, fault.New("actors.model", fault.Invalid, "open %q: %w", path, err)
	}
	return &file{File: f, size: info.Size()}, nil
}

// Size implements plane.Blob.
func (f *file) Size() int64 { return f.size }

// Path implements plane.Blob.
func (f *file) Path() string { return f.Name() }
