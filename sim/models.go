package sim

import (
	"context"
	"fmt"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// Models keeps the results of jobs in memory.
type Models struct{ saved map[string]Saved }

// Saved is a result.
type Saved struct {
	Model  tensor.StateDict
	Result *messages.JobResult
}

// Save implements train.Models.
func (m *Models) Save(_ context.Context, job *messages.JobRef, _ *messages.TrainTask, result *messages.JobResult, model plane.Blob) (string, error) {
	dict, err := tensor.Read(model, model.Size())
	if err != nil {
		return "", err
	}
	m.saved[job.GetId()] = Saved{Model: dict, Result: result}
	return fmt.Sprintf("mem:///models/%s.%d", job.GetId(), job.GetIncarnation()), nil
}

// Get returns the result of a job.
func (m *Models) Get(id string) (Saved, bool) {
	s, ok := m.saved[id]
	return s, ok
}
