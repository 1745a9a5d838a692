package jobjson

import "github.com/troupe-ml/troupe/messages"

// History is what a job has done, with KubeML's field names.
type History struct {
	ID   string       `json:"id"`
	Task TrainRequest `json:"task"`
	Data HistoryData  `json:"data"`
	Job  TaskDetails  `json:"job" doc:"the job as GET /tasks/{id} shows it; in a list without its epochs, which data has"`
}

// HistoryData has a value for each epoch. null: not measured.
type HistoryData struct {
	ValidationLoss []*float64 `json:"validation_loss"`
	Accuracy       []*float64 `json:"accuracy" doc:"percent"`
	TrainLoss      []*float64 `json:"train_loss"`
	Parallelism    []uint32   `json:"parallelism"`
	EpochDuration  []float64  `json:"epoch_duration" doc:"seconds"`
}

// NewHistory returns what a job has done.
func NewHistory(v *messages.JobView) History {
	h := History{ID: v.GetId(), Task: NewTrainRequest(v.GetTask()), Job: NewTaskDetails(v), Data: HistoryData{
		ValidationLoss: []*float64{}, Accuracy: []*float64{}, TrainLoss: []*float64{}, Parallelism: []uint32{}, EpochDuration: []float64{},
	}}
	for _, e := range h.Job.Epochs {
		h.Data.ValidationLoss = append(h.Data.ValidationLoss, e.ValidationLoss)
		h.Data.Accuracy = append(h.Data.Accuracy, e.Accuracy)
		h.Data.TrainLoss = append(h.Data.TrainLoss, e.TrainLoss)
		h.Data.Parallelism = append(h.Data.Parallelism, e.Parallelism)
		h.Data.EpochDuration = append(h.Data.EpochDuration, e.DurationS)
	}
	return h
}

// Brief leaves out what data has already.
func (h History) Brief() History {
	h.Job.Epochs = []Epoch{}
	if h.Job.Result != nil {
		result := *h.Job.Result
		result.Epochs = []Epoch{}
		h.Job.Result = &result
	}
	return h
}

// View returns the job as its JSON tells: of one from a list, epochs have what
// data has.
func (h History) View() *messages.JobView {
	v := h.Job.View()
	if len(v.GetEpochs()) > 0 {
		return v
	}
	for i := range min(len(h.Data.Parallelism), len(h.Data.EpochDuration)) {
		v.Epochs = append(v.Epochs, &messages.EpochRecord{
			Epoch: uint32(i + 1), Parallelism: h.Data.Parallelism[i], TrainLoss: orNaN(at(h.Data.TrainLoss, i)), ValidationLoss: at(h.Data.ValidationLoss, i),
			Accuracy: at(h.Data.Accuracy, i), DurationS: h.Data.EpochDuration[i],
		})
	}
	if v.GetResult() != nil {
		v.Result.Epochs = v.GetEpochs()
	}
	return v
}

func at(values []*float64, i int) *float64 {
	if i >= len(values) {
		return nil
	}
	return values[i]
}
