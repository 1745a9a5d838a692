package jobjson

import (
	"encoding/json"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/function"
)

// TrainRequest is what POST /train takes and what a task shows, with KubeML's
// field names. A field that is unset has its default.
type TrainRequest struct {
	ModelType    string  `json:"model_type" doc:"a label of the user's"`
	BatchSize    uint32  `json:"batch_size,omitempty" doc:"samples, 1 to 65536"`
	Epochs       uint32  `json:"epochs,omitempty" doc:"1 to 1000000"`
	Dataset      string  `json:"dataset" doc:"name of a data set, such as digits"`
	LR           float64 `json:"lr,omitempty" doc:"learning rate, finite, above 0"`
	FunctionName string  `json:"function_name" doc:"name of a function, such as mlp"`
	Options      Options `json:"options"`
}

// NewTrainRequest returns a task as a request. It shares the task's options.
func NewTrainRequest(t *messages.TrainTask) TrainRequest { return newTrainRequest(t, nil) }

func newTrainRequest(t *messages.TrainTask, fields []optionField) TrainRequest {
	o := t.GetOptions()
	if o == nil {
		o = &messages.TrainOptions{}
	}
	return TrainRequest{
		ModelType: t.GetModelType(), BatchSize: t.GetBatchSize(), Epochs: t.GetEpochs(), Dataset: t.GetDataset(), LR: t.GetLr(),
		FunctionName: t.GetFunctionName(), Options: Options{TrainOptions: o, fields: fields},
	}
}

// Task returns the request as a task, unresolved. It shares the options.
func (r TrainRequest) Task() *messages.TrainTask {
	return &messages.TrainTask{
		ModelType: r.ModelType, BatchSize: r.BatchSize, Epochs: r.Epochs, Dataset: r.Dataset, Lr: r.LR,
		FunctionName: r.FunctionName, Options: r.Options.TrainOptions,
	}
}

// DecodeTask reads the body of POST /train and completes it. Invalid: what is
// no such request; a field that there is not, naming the nearest that there is;
// a value out of range; a function, data set or model that is named by a path.
func DecodeTask(body []byte) (*messages.TrainTask, error) {
	members, err := Object("request", body)
	if err != nil {
		return nil, err
	}
	t := &messages.TrainTask{Options: &messages.TrainOptions{}}
	for _, m := range members {
		if err := setRequest(t, m); err != nil {
			return nil, err
		}
	}
	if err := checkByName(t); err != nil {
		return nil, err
	}
	return task.Resolve(t)
}

// setRequest sets a field of a task.
func setRequest(t *messages.TrainTask, m Member) (err error) {
	var n int64
	set, known := map[string]func(){
		"model_type": func() { t.ModelType, err = text(m.Name, m.Value) },
		"batch_size": func() { n, err = Signed(m.Name, m.Value, 1, task.MaxBatchSize); t.BatchSize = uint32(n) },
		"epochs":     func() { n, err = Signed(m.Name, m.Value, 1, task.MaxEpochs); t.Epochs = uint32(n) },
		"dataset":    func() { t.Dataset, err = text(m.Name, m.Value) },
		"lr":         func() { t.Lr, err = rate(m.Name, m.Value) },
		"function_name": func() {
			t.FunctionName, err = text(m.Name, m.Value)
		},
		"options": func() {
			t.Options, err = decodeOptions(m.Value, func(name string) error { return Unknown("options", name, optionNames()) })
		},
	}[m.Name]
	if !known {
		return Unknown("request", m.Name, requestNames())
	}
	if !m.IsNull() {
		set()
	}
	return err
}

func rate(what string, raw json.RawMessage) (float64, error) {
	x, err := real(what, raw)
	if err == nil && (x <= 0 || math.IsInf(x, 0)) {
		return 0, Invalid("%s %v: give a finite number above 0", what, x)
	}
	return x, err
}

func requestNames() []string {
	return []string{"model_type", "batch_size", "epochs", "dataset", "lr", "function_name", "options"}
}

func optionNames() []string {
	var names []string
	for _, field := range optionFields() {
		names = append(names, field.name)
	}
	return names
}

// checkByName refuses what would be read from the files of this machine.
func checkByName(t *messages.TrainTask) error {
	if len(t.GetModelType()) > MaxLabel || strings.ContainsFunc(t.GetModelType(), unicode.IsControl) {
		return Invalid("model_type %q: give at most %d bytes without control characters", Shown(t.GetModelType()), MaxLabel)
	}
	if name := t.GetFunctionName(); name != "" {
		if err := CheckFunction(name); err != nil {
			return err
		}
	}
	if name := t.GetDataset(); name != "" {
		if err := CheckDataset(name); err != nil {
			return err
		}
	}
	if model := t.GetOptions().GetInit(); model != "" {
		return CheckModel(model)
	}
	return nil
}

const (
	// MaxLabel is how long a text may be that only people read, in bytes.
	MaxLabel = 256
	maxName  = 128 // bytes of the name of a data set or job
)

// CheckFunction checks the name of a function, which a path is not.
func CheckFunction(name string) error {
	if err := function.CheckName(name); err != nil {
		return err
	}
	if strings.HasSuffix(name, ".py") {
		return Invalid("function name %q is that of a file: give the name of a function in the store", name)
	}
	return nil
}

// CheckDataset checks the name of a data set, which a path is not.
func CheckDataset(name string) error {
	if err := CheckName("data set", name); err != nil {
		return err
	}
	for _, ending := range []string{".csv", ".csv.gz", ".npz"} {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return Invalid("data set name %q is that of a file: give the name of a data set in the store", name)
		}
	}
	return nil
}

// CheckModel checks the id of a model, which a path is not.
func CheckModel(id string) error {
	if err := CheckName("model", id); err != nil {
		return err
	}
	if strings.HasSuffix(strings.ToLower(id), ".safetensors") {
		return Invalid("model name %q is that of a file: give the id of a model in the store", id)
	}
	return nil
}

// CheckJob checks the id of a job.
func CheckJob(id string) error { return CheckName("job", id) }

// CheckName refuses names that could lead out of a folder or mislead a reader:
// what begins with a letter or digit and has neither slashes nor what cannot be
// seen is one.
func CheckName(what, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return Invalid("%s name %q has %d bytes: give 1 to %d, in UTF-8", what, Shown(name), len(name), maxName)
	}
	for i, r := range name {
		if i == 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r) || strings.ContainsRune(`/\`, r) || !unicode.IsPrint(r) {
			return Invalid("%s name %q has the character %q at %d: begin with a letter or digit, and use no slashes", what, Shown(name), r, i+1)
		}
	}
	return nil
}
