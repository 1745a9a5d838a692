package train

import (
	"net/http"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
)

// FunctionTask is what a function is to do, as KubeML's package train names it.
type FunctionTask = functions.Task

// The tasks of a function.
const (
	Train      FunctionTask = functions.Train
	Validation FunctionTask = functions.Val
	Init       FunctionTask = functions.Init
	Inference  FunctionTask = functions.Infer
)

// FunctionResults is what a function answers: in its own response, or in the body
// of POST /next.
type FunctionResults = remote.FunctionResults

// FunctionArgs names one of the functions of a round.
type FunctionArgs struct {
	Id  int // from 0
	Num int // N of the round
}

// URL returns where that function is called: an endpoint with the arguments of
// its call. Invalid: the endpoint is none that can be called.
func (a FunctionArgs) URL(endpoint string, call remote.Call) (string, error) {
	call.Function, call.N = a.Id, a.Num
	return call.URL(endpoint)
}

// MergeResult is how the merge of a round went, as POST /next tells a function
// that has finished it.
type MergeResult int

// The ways in which a merge can go.
const (
	MergeSucceeded MergeResult = iota
	MergeFailed
)

// Status returns the status with which POST /next tells it.
func (m MergeResult) Status() int {
	if m == MergeSucceeded {
		return http.StatusOK
	}
	return http.StatusInternalServerError
}
