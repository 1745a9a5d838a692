package jobjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// Options are the options of a TrainRequest in JSON. An option that is missing,
// null, or 0 where 0 makes no sense has its default.
type Options struct {
	*messages.TrainOptions
	fields []optionField // as optionFields has them, for who writes many; nil: not made yet
}

// MarshalJSON writes what is set.
func (o Options) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	fields := o.fields
	if fields == nil {
		fields = optionFields()
	}
	for _, field := range fields {
		value := field.get(o.TrainOptions)
		if value == nil {
			continue
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", field.name, encoded)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads what a node says: options that it does not know are left
// out. Decode is for what a user says.
func (o *Options) UnmarshalJSON(raw []byte) error {
	var err error
	o.TrainOptions, err = decodeOptions(raw, func(string) error { return nil })
	return err
}

// decodeOptions reads options, and asks unknown about those that there are not.
func decodeOptions(raw json.RawMessage, unknown func(name string) error) (*messages.TrainOptions, error) {
	o := &messages.TrainOptions{}
	members, err := Object("options", raw)
	if err != nil {
		return nil, err
	}
	fields := optionFields()
	for _, m := range members {
		field := find(fields, m.Name)
		switch {
		case field == nil:
			err = unknown(m.Name)
		case !m.IsNull():
			err = field.set(o, "options."+m.Name, m.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

func find(fields []optionField, name string) *optionField {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// OptionSchema describes an option.
type OptionSchema struct {
	Name   string
	Schema map[string]any // JSON Schema of its value; null, beside it, is its default
}

// OptionSchemas describes the options, in the order of the documentation.
func OptionSchemas() []OptionSchema {
	var schemas []OptionSchema
	for _, field := range optionFields() {
		schemas = append(schemas, OptionSchema{field.name, field.schema})
	}
	return schemas
}

// optionField is an option: how it is read, written and described.
type optionField struct {
	name   string
	schema map[string]any // JSON Schema
	set    func(o *messages.TrainOptions, what string, raw json.RawMessage) error
	get    func(o *messages.TrainOptions) any // nil: unset
}

// optionFields lists the options, in the order of the documentation.
func optionFields() []optionField {
	type O = messages.TrainOptions
	return []optionField{
		count("default_parallelism", "N of the first epoch; default: the free slots, at most 4", task.MaxParallelism, func(o *O) *uint32 { return &o.DefaultParallelism }),
		count("min_parallelism", "least N that the scheduler may choose", task.MaxParallelism, func(o *O) *uint32 { return &o.MinParallelism }),
		count("max_parallelism", "greatest N that the scheduler may choose; default: all slots", task.MaxParallelism, func(o *O) *uint32 { return &o.MaxParallelism }),
		flag("static_parallelism", "N stays", func(o *O) *bool { return &o.StaticParallelism }),
		integer("k", "batches of a round; -1: one round an epoch", func(o *O) *int32 { return &o.K }),
		word("merge", "how models are merged", func(o *O) *string { return &o.Merge }),
		number("clip", "most that the L2 norm of a function's change in a round may be", func(o *O) *float64 { return &o.Clip }),
		word("optimizer_state", "what becomes of it at a merge: "+strings.Join(task.OptimizerStates(), ", "), func(o *O) *string { return &o.OptimizerState }),
		word("compress", "how answers are encoded, for merges of many nodes: "+strings.Join(task.Compressions(), ", "), func(o *O) *string { return &o.Compress }),
		word("lr_scale", "how lr follows N: "+strings.Join(task.LRScales(), ", "), func(o *O) *string { return &o.LrScale }),
		number("warmup", "epochs over which lr rises to its value", func(o *O) *float64 { return &o.Warmup }),
		number("validate_every", "epochs between validations; -1: only at the end", func(o *O) *float64 { return &o.ValidateEvery }),
		number("goal_accuracy", "percent that ends the job once it is reached", func(o *O) *float64 { return &o.GoalAccuracy }),
		count("patience", "epochs without a better validation that end the job", task.MaxEpochs, func(o *O) *uint32 { return &o.Patience }),
		duration("max_time", "training time that ends the job", "", func(o *O) *uint64 { return &o.MaxTimeMs }),
		word("keep", "which model becomes the result: best, last", func(o *O) *string { return &o.Keep }),
		choice("shuffle", "train samples in an order of their own each epoch", func(o *O) **bool { return &o.Shuffle }),
		seed("seed", "of every random draw", func(o *O) *uint64 { return &o.Seed }),
		optionalCount("retries", "further attempts at an assignment that failed", func(o *O) **uint32 { return &o.Retries }),
		count("min_functions", "answers that a round needs", task.MaxParallelism, func(o *O) *uint32 { return &o.MinFunctions }),
		duration("function_timeout", "limit of one attempt", "", func(o *O) *uint64 { return &o.FunctionTimeoutMs }),
		choice("backup", "run a straggler's assignment a second time", func(o *O) **bool { return &o.Backup }),
		word("on_bad_samples", "what to do where a function fails on some samples every time: "+strings.Join(task.OnBadSamples(), ", "), func(o *O) *string { return &o.OnBadSamples }),
		duration("checkpoint_every", "between checkpoints; auto: as often as costs little", "auto", func(o *O) *uint64 { return &o.CheckpointEveryMs }),
		word("init", "id of a stored model to start from", func(o *O) *string { return &o.Init }),
		flag("init_partial", "take of it what fits", func(o *O) *bool { return &o.InitPartial }),
		texts("args", "arguments for the function", func(o *O) *map[string]string { return &o.Args }),
		texts("env", "environment of the program; the values are shown to who may submit alone", func(o *O) *map[string]string { return &o.Env }),
		texts("require_labels", "labels that nodes must have to run functions of the job", func(o *O) *map[string]string { return &o.RequireLabels }),
		integer("priority", "jobs of a higher one start first", func(o *O) *int32 { return &o.Priority }),
		chaos(),
	}
}

// count is a whole number from 0, which means its default, to most.
func count(name, doc string, most int64, field func(*messages.TrainOptions) *uint32) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "integer", "minimum": 0, "maximum": most, "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			n, err := Signed(what, raw, 0, most)
			*field(o) = uint32(n)
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

// optionalCount is a count whose 0 is not its default.
func optionalCount(name, doc string, field func(*messages.TrainOptions) **uint32) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "integer", "minimum": 0, "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			n, err := Signed(what, raw, 0, math.MaxUint32)
			value := uint32(n)
			*field(o) = &value
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessNil(*field(o)) },
	}
}

func integer(name, doc string, field func(*messages.TrainOptions) *int32) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "integer", "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			n, err := Signed(what, raw, math.MinInt32, math.MaxInt32)
			*field(o) = int32(n)
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

func seed(name, doc string, field func(*messages.TrainOptions) *uint64) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "integer", "minimum": 0, "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			n, err := unsigned(what, raw)
			*field(o) = n
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

func number(name, doc string, field func(*messages.TrainOptions) *float64) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "number", "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			x, err := real(what, raw)
			*field(o) = x
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

func word(name, doc string, field func(*messages.TrainOptions) *string) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "string", "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			s, err := text(what, raw)
			*field(o) = s
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

func flag(name, doc string, field func(*messages.TrainOptions) *bool) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "boolean", "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			b, err := truth(what, raw)
			*field(o) = b
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(*field(o)) },
	}
}

// choice is a flag whose false is not its default.
func choice(name, doc string, field func(*messages.TrainOptions) **bool) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": "boolean", "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			b, err := truth(what, raw)
			*field(o) = &b
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessNil(*field(o)) },
	}
}

// duration is text such as "90s", a number of seconds, or the word for the
// default if there is one. It is kept in milliseconds, written as text.
func duration(name, doc, automatic string, field func(*messages.TrainOptions) *uint64) optionField {
	return optionField{
		name: name, schema: map[string]any{"type": []string{"string", "number"}, "description": doc + ", such as \"90s\", or in seconds"},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			ms, err := milliseconds(what, raw, automatic)
			*field(o) = ms
			return err
		},
		get: func(o *messages.TrainOptions) any {
			if ms := *field(o); ms != 0 {
				return fmt.Sprint(time.Duration(ms) * time.Millisecond)
			}
			return nil
		},
	}
}

// milliseconds reads a duration. One that is not 0 gives at least 1.
func milliseconds(what string, raw json.RawMessage, automatic string) (uint64, error) {
	const longest = 10 * 365 * 24 * time.Hour
	var d time.Duration
	if isNumber(raw) {
		s, err := real(what, raw)
		if err != nil || s < 0 || s > longest.Seconds() {
			return 0, Invalid("%s %s: give seconds, or a duration such as \"90s\"", what, Shown(string(raw)))
		}
		d = time.Duration(s * float64(time.Second))
	} else {
		s, err := text(what, raw)
		if err == nil && automatic != "" && s == automatic {
			return 0, nil
		}
		if err == nil {
			d, err = time.ParseDuration(s)
		}
		if err != nil || d < 0 || d > longest {
			return 0, Invalid("%s %s: give seconds, or a duration such as \"90s\"", what, Shown(string(raw)))
		}
	}
	if d > 0 {
		d = max(d, time.Millisecond)
	}
	return uint64(d.Milliseconds()), nil
}

func texts(name, doc string, field func(*messages.TrainOptions) *map[string]string) optionField {
	return optionField{
		name:   name,
		schema: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "description": doc},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			members, err := Object(what, raw)
			if err != nil || len(members) == 0 {
				return err
			}
			values := make(map[string]string, len(members))
			for _, m := range members {
				if values[m.Name], err = text(what+"."+Shown(m.Name), m.Value); err != nil {
					return err
				}
			}
			*field(o) = values
			return nil
		},
		get: func(o *messages.TrainOptions) any {
			if values := *field(o); len(values) > 0 {
				return values
			}
			return nil
		},
	}
}

func unlessZero[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func unlessNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
