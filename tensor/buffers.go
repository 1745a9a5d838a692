package tensor

import "encoding/json"

// BuffersKey is the key of a file's metadata under which its buffers are named:
// the tensors that training measures and does not step, such as BatchNorm's
// statistics, as a JSON array of names. The Python SDK writes it at init, and it
// stays with the model from merge to merge. A file without it has none.
const BuffersKey = "troupe.buffers"

// Buffers returns the names of the file's buffers; names of tensors that the
// file does not have mean nothing. Corrupt: the metadata are no such array.
func (l *Layout) Buffers() (map[string]bool, error) {
	text, ok := l.Metadata[BuffersKey]
	if !ok {
		return nil, nil
	}
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, corrupt("metadata %q are no array of tensor names: %w", BuffersKey, err)
	}
	buffers := make(map[string]bool, len(names))
	for _, name := range names {
		buffers[name] = true
	}
	return buffers, nil
}

// parameters says of each entry whether training steps it: a tensor of a float
// type that is no buffer.
func (l *Layout) parameters() ([]bool, error) {
	buffers, err := l.Buffers()
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = e.DType.IsFloat() && !buffers[e.Name]
	}
	return out, nil
}
