package sim

import (
	"bytes"
	"context"
	"io"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/model"
	"github.com/troupe-ml/troupe/tensor"
)

// Models keeps the results of jobs in the company's store.
type Models struct {
	catalog *model.Catalog // as jobs use it
	reader  *model.Catalog // of the same store, without faults
}

// Saved is a result, as readers find it.
type Saved struct {
	Model       tensor.StateDict
	Incarnation uint64 // that saved it
}

func newModels(s store.Store) *Models {
	return &Models{catalog: model.New(s), reader: model.New(sound(s))}
}

// Save implements train.Models.
func (m *Models) Save(ctx context.Context, job *messages.JobRef, task *messages.TrainTask, result *messages.JobResult, blob plane.Blob) (string, error) {
	card := model.Card{Function: task.GetFunctionName(), Epochs: len(result.GetEpochs())}
	return m.catalog.Save(ctx, job.GetId(), job.GetIncarnation(), card, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(blob, 0, blob.Size()))
		return err
	})
}

// Get returns the result of a job.
func (m *Models) Get(id string) (Saved, bool) {
	found, err := m.reader.Open(context.Background(), id)
	if err != nil {
		return Saved{}, false
	}
	r, err := m.reader.Read(context.Background(), found)
	if err != nil {
		return Saved{}, false
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		return Saved{}, false
	}
	dict, err := tensor.Read(bytes.NewReader(content), int64(len(content)))
	return Saved{Model: dict, Incarnation: found.Incarnation}, err == nil
}
