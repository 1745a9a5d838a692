package jobjson

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/troupe-ml/troupe/messages"
)

// EncodeEvent returns an event as JSON, with the names of the .proto file:
// numbers are numbers, whatever their width; null is what is not set, or no
// number that JSON has.
func EncodeEvent(e *messages.JobEvent) []byte {
	var b bytes.Buffer
	writeMessage(&b, e.ProtoReflect())
	return b.Bytes()
}

// DecodeEvent reads an event as the stream has it. It ignores what a later
// version may have added.
func DecodeEvent(data []byte) (*messages.JobEvent, error) {
	e := &messages.JobEvent{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, e); err != nil {
		return nil, Invalid("event %s: %w", Shown(string(data)), err)
	}
	return e, nil
}

// EventName says what happened, as in "round_merged"; "" for what this version
// does not know.
func EventName(e *messages.JobEvent) string {
	m := e.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("what"))
	if field == nil {
		return ""
	}
	return string(field.Name())
}

func writeMessage(b *bytes.Buffer, m protoreflect.Message) {
	b.WriteByte('{')
	fields := m.Descriptor().Fields()
	for i, first := 0, true; i < fields.Len(); i++ {
		field := fields.Get(i)
		if one := field.ContainingOneof(); one != nil && !one.IsSynthetic() && !m.Has(field) {
			continue // what did not happen
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(strconv.Quote(string(field.Name())) + ":")
		writeField(b, field, m)
	}
	b.WriteByte('}')
}

func writeField(b *bytes.Buffer, field protoreflect.FieldDescriptor, m protoreflect.Message) {
	switch value := m.Get(field); {
	case field.IsList():
		b.WriteByte('[')
		for i := range value.List().Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, field, value.List().Get(i))
		}
		b.WriteByte(']')
	case field.IsMap():
		writeMap(b, field.MapValue(), value.Map())
	case field.HasPresence() && !m.Has(field):
		b.WriteString("null")
	default:
		writeValue(b, field, value)
	}
}

// writeMap writes a map from text, in the order of its keys.
func writeMap(b *bytes.Buffer, field protoreflect.FieldDescriptor, values protoreflect.Map) {
	var keys []string
	values.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if x, ok := value.Interface().(float64); !ok || measured(&x) != nil {
			keys = append(keys, key.String())
		}
		return true
	})
	slices.Sort(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(b, key)
		b.WriteByte(':')
		writeValue(b, field, values.Get(protoreflect.ValueOfString(key).MapKey()))
	}
	b.WriteByte('}')
}

func writeValue(b *bytes.Buffer, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		writeMessage(b, v)
	case protoreflect.EnumNumber:
		name := field.Enum().Values().ByNumber(v)
		if name == nil {
			b.WriteString(strconv.Itoa(int(v)))
			return
		}
		writeText(b, string(name.Name()))
	case string:
		writeText(b, v)
	case float64:
		writeNumber(b, v)
	default: // whole numbers and truth
		b.WriteString(value.String())
	}
}

func writeText(b *bytes.Buffer, s string) {
	quoted, err := json.Marshal(s)
	if err != nil { // text is always JSON
		panic(err)
	}
	b.Write(quoted)
}

func writeNumber(b *bytes.Buffer, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		b.WriteString("null")
		return
	}
	b.WriteString(strconv.FormatFloat(x, 'g', -1, 64))
}
