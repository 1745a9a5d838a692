package host

import (
	"math"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// checkCounts says what is wrong with the numbers of an answer, nil if they may
// be used: all that was asked for was consumed, in as many batches as that
// takes, and loss and accuracy are numbers. Rejected.
func checkCounts(call functions.Invocation, got functions.Answer) error {
	if call.Task == functions.Init {
		return nil
	}
	n := len(call.Positions)
	batches := len(functions.Batches(n, call.BatchSize))
	switch {
	case got.Samples != int64(n):
		return rejected("the function reports %d samples, its assignment has %d", got.Samples, n)
	case call.Task == functions.Train && got.Batches != batches:
		return rejected("the function reports %d batches, %d samples at %d make %d", got.Batches, n, call.BatchSize, batches)
	case math.IsNaN(got.Loss) || math.IsInf(got.Loss, 0):
		return fault.New("host.loss", fault.Rejected, "the loss is %v", got.Loss)
	case got.HasAccuracy && !(got.Correct >= 0 && got.Correct <= float64(n)):
		return rejected("the function reports an accuracy of %.4g %%, %v right of %d samples: accuracy is in percent, 0 to 100",
			got.Correct/float64(n)*100, got.Correct, n)
	}
	return nil
}

func rejected(format string, args ...any) error {
	return fault.New("host.check", fault.Rejected, format, args...)
}
