package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/troupe-ml/troupe/internal/jobjson"
)

// schema is a JSON Schema, as OpenAPI 3.1 has them.
type schema map[string]any

// schemas describes Go types by reflection, each named struct once.
type schemas map[string]schema

// of returns the schema of a value's type.
func (s schemas) of(value any) schema { return s.typ(reflect.TypeOf(value)) }

func (s schemas) typ(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[jobjson.Options]():
		return s.options()
	case t == reflect.TypeFor[json.RawMessage]():
		return schema{} // anything
	}
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Pointer:
		return orNull(s.typ(t.Elem()))
	case reflect.Slice:
		return schema{"type": "array", "items": s.typ(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": s.typ(t.Elem())}
	case reflect.Struct:
		return s.object(t)
	}
	panic("api: no schema for " + t.String())
}

// object describes a struct by its name, once.
func (s schemas) object(t reflect.Type) schema {
	if _, known := s[t.Name()]; !known {
		s[t.Name()] = schema{} // while it is made, for types that hold themselves
		properties, required := schema{}, []string{}
		s.fields(t, properties, &required)
		s[t.Name()] = schema{"type": "object", "properties": properties, "required": required}
	}
	return ref(t.Name())
}

func (s schemas) fields(t reflect.Type, properties schema, required *[]string) {
	for field := range fieldsOf(t) {
		name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			s.fields(field.Type, properties, required)
			continue
		}
		property := s.typ(field.Type)
		if doc := field.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		properties[name] = property
		if !strings.Contains(rest, "omitempty") {
			*required = append(*required, name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// options describes what an option may be.
func (s schemas) options() schema {
	if _, known := s["TrainOptions"]; !known {
		properties := schema{}
		for _, option := range jobjson.OptionSchemas() {
			properties[option.Name] = orNull(option.Schema)
		}
		s["TrainOptions"] = schema{"type": "object", "properties": properties, "additionalProperties": false}
	}
	return ref("TrainOptions")
}

// trainRequest describes what DecodeTask reads. What a task shows of it has the
// same fields, so that only what must be there differs.
func (s schemas) trainRequest() schema {
	s.of(jobjson.TrainRequest{})
	fields := s["TrainRequest"]["properties"].(schema)
	properties := schema{}
	for name, field := range fields {
		properties[name] = orNull(maps.Clone(field.(schema)))
	}
	for _, name := range []string{"function_name", "dataset"} {
		properties[name] = fields[name]
	}
	s["TrainBody"] = schema{"type": "object", "properties": properties, "required": []string{"function_name", "dataset"}, "additionalProperties": false}
	return ref("TrainBody")
}

func ref(name string) schema { return schema{"$ref": "#/components/schemas/" + name} }

// orNull allows null too.
func orNull(s schema) schema {
	switch kind := s["type"].(type) {
	case string:
		s["type"] = []string{kind, "null"}
	case []string:
		s["type"] = append(kind[:len(kind):len(kind)], "null")
	default:
		return schema{"anyOf": []schema{s, {"type": "null"}}}
	}
	return s
}
