package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxSamples bounds a data file: the samples travel to a worker in one message.
const maxSamples = 15 << 20 // bytes

// readSamples reads a file of samples, or standard input for "-", and returns
// the array. NotFound: no such file. Invalid, naming line and column, for what
// is no JSON, and for other JSON.
func (s *session) readSamples(file string) (json.RawMessage, error) {
	const op = "infer.data"
	in, name := s.In, "standard input"
	if file != "-" {
		name = file
		f, err := os.Open(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, fault.New(op, fault.NotFound, "%s: no such file", file)
		case err != nil:
			return nil, fault.New(op, fault.Invalid, "%w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSamples+1))
	switch {
	case err != nil:
		return nil, fault.New(op, fault.Invalid, "read %s: %w", name, err)
	case len(b) > maxSamples:
		return nil, fault.New(op, fault.Invalid, "%s is longer than %d MiB: ask in several parts", name, maxSamples>>20)
	}
	samples, err := parseSamples(b)
	if err != nil {
		return nil, fault.New(op, fault.Invalid, "%s: %w", name, err)
	}
	return samples, nil
}

// parseSamples finds the array of samples in a JSON text: the text itself, or
// its field data.
func parseSamples(b []byte) (json.RawMessage, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("empty: want a JSON array of samples")
	}
	var samples json.RawMessage
	if err := json.Unmarshal(b, &samples); err != nil {
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			line, column := position(b, e.Offset)
			return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
		}
		return nil, err
	}
	if samples[0] == '{' {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(samples, &fields); err != nil {
			return nil, err
		}
		if samples = fields["data"]; samples == nil || len(fields) != 1 {
			return nil, fmt.Errorf("the object has the fields %q: want data alone, or a plain array of samples", slices.Sorted(maps.Keys(fields)))
		}
	}
	var array []json.RawMessage
	switch {
	case samples[0] != '[':
		return nil, fmt.Errorf("want a JSON array of samples, not %.40s", samples)
	case json.Unmarshal(samples, &array) == nil && len(array) == 0:
		return nil, errors.New("there are no samples")
	}
	return samples, nil
}

// position says where the byte before an offset is, both from 1; columns count
// bytes.
func position(b []byte, offset int64) (line, column int) {
	before := b[:max(0, min(int(offset), len(b))-1)]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}
