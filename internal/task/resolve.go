// Package task completes and checks what a user asks for. It is the one place
// that knows which tasks are sound, whichever way they came: command line,
// HTTP, or a Go program.
package task

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// Resolve returns a copy of t in which every unset field has its default, or
// the first Invalid error met: it names the flag, the value and what is
// allowed. t itself is not touched.
//
// Two fields may stay 0 in the copy, since their defaults depend on the slots
// at the job's start: options.default_parallelism (free slots, at most 4) and
// options.max_parallelism (all slots). What the catalogs fill in at submission
// is copied as it is.
func Resolve(t *messages.TrainTask) (*messages.TrainTask, error) {
	r := &messages.TrainTask{}
	if t != nil {
		r = proto.CloneOf(t)
	}
	if r.Options == nil {
		r.Options = &messages.TrainOptions{}
	}
	complete(r, config.DefaultTrain())
	if err := check(r); err != nil {
		return nil, err
	}
	return r, nil
}

// complete sets what is unset in t.
func complete(t *messages.TrainTask, d config.Train) {
	o := t.GetOptions()
	setDefault(&t.Epochs, d.Epochs)
	setDefault(&t.BatchSize, d.BatchSize)
	setDefault(&t.Lr, d.LR)
	setDefault(&o.MinParallelism, d.MinParallelism)
	setDefault(&o.K, d.K)
	setDefault(&o.Merge, d.Merge)
	setDefault(&o.OptimizerState, d.OptimizerState)
	setDefault(&o.Compress, d.Compress)
	setDefault(&o.ValidateEvery, d.ValidateEvery)
	setDefault(&o.LrScale, d.LRScale)
	setDefault(&o.Seed, d.Seed)
	setDefault(&o.MinFunctions, d.MinFunctions)
	setDefault(&o.FunctionTimeoutMs, uint64(d.FunctionTimeout/time.Millisecond))
	setDefault(&o.OnBadSamples, d.OnBadSamples)
	setDefault(&o.Keep, d.Keep)
	setDefault(&o.Priority, d.Priority)
	if o.Shuffle == nil {
		o.Shuffle = &d.Shuffle
	}
	if o.Backup == nil {
		o.Backup = &d.Backup
	}
	if o.Retries == nil {
		o.Retries = &d.Retries
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
