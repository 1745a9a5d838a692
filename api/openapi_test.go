package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// describe returns the description that a server serves, and a compiler that
// knows it.
func describe(t *testing.T, s *server) (map[string]any, *jsonschema.Compiler) {
	t.Helper()
	_, body := s.do("GET", "/openapi.json", "")
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // that of OpenAPI 3.1
	require.NoError(t, c.AddResource("https://troupe.test/openapi.json", document))
	return document.(map[string]any), c
}

func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := v.(map[string]any)
		require.True(t, ok, "%s of %v", name, v)
		require.Contains(t, object, name)
		v = object[name]
	}
	return v
}

// pointer is a JSON pointer to that place of the description.
func pointer(path ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	var b strings.Builder
	b.WriteString("https://troupe.test/openapi.json#")
	for _, p := range path {
		b.WriteString("/" + escape.Replace(p))
	}
	return b.String()
}

// The description has the routes, and no others; docs/api.md has them too.
func TestTheDescriptionHasTheRoutes(t *testing.T) {
	s := start(t)
	document, compiler := describe(t, s)
	require.Equal(t, "3.1.0", document["openapi"])
	described := []string{}
	ids := map[string]bool{}
	for path, item := range at(t, document, "paths").(map[string]any) {
		for method, op := range item.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
			id := at(t, op, "operationId").(string)
			require.False(t, ids[id], id)
			ids[id] = true
			require.NotEmpty(t, at(t, op, "summary"))
			for status, response := range at(t, op, "responses").(map[string]any) {
				for media := range maps.Keys(optional(response, "content")) {
					_, err := compiler.Compile(pointer("paths", path, method, "responses", status, "content", media, "schema"))
					require.NoError(t, err)
				}
			}
			requirePathParameters(t, path, op)
		}
	}
	slices.Sort(described)
	require.Equal(t, api.Routes(), described)
}

func optional(v any, name string) map[string]any {
	object, _ := v.(map[string]any)[name].(map[string]any)
	return object
}

func requirePathParameters(t *testing.T, path string, op any) {
	t.Helper()
	declared := 0
	parameters, _ := op.(map[string]any)["parameters"].([]any)
	for _, p := range parameters {
		if at(t, p, "in") == "path" {
			require.Contains(t, path, "{"+at(t, p, "name").(string)+"}")
			declared++
		}
	}
	require.Equal(t, strings.Count(path, "{"), declared)
}

// Real answers are as described.
func TestAnswersAreAsDescribed(t *testing.T) {
	s := start(t)
	settled(s)
	s.company.Add(&messages.JobView{Id: "q", Phase: messages.Phase_PHASE_QUEUED}) // of which little is known
	document, compiler := describe(t, s)
	for _, c := range []struct{ method, path, url, body string }{
		{"GET", "/tasks", "/tasks", ""},
		{"GET", "/tasks/{id}", "/tasks/r", ""},
		{"GET", "/tasks/{id}", "/tasks/e", ""},
		{"GET", "/tasks/{id}", "/tasks/q", ""},
		{"GET", "/tasks/{id}", "/tasks/x", ""},
		{"GET", "/tasks/{id}", "/tasks/..%2f", ""},
		{"GET", "/history", "/history", ""},
		{"GET", "/history/{id}", "/history/e", ""},
		{"POST", "/tasks/{id}/resize", "/tasks/r/resize", `{"parallelism":2}`},
		{"POST", "/tasks/{id}/resume", "/tasks/r/resume", ""},
		{"DELETE", "/tasks/{id}", "/tasks/r", ""},
		{"POST", "/train", "/train", `{}`},
		{"POST", "/infer", "/infer", `{"model_id":"e","data":[1]}`},
		{"GET", "/functions", "/functions", ""},
		{"GET", "/functions/{name}", "/functions/mlp", ""},
		{"PUT", "/functions/{name}", "/functions/net", "print()"},
		{"DELETE", "/functions/{name}", "/functions/mlp", ""},
		{"GET", "/dataset", "/dataset", ""},
		{"GET", "/dataset/{name}", "/dataset/digits", ""},
		{"GET", "/models", "/models", ""},
		{"GET", "/cluster", "/cluster", ""},
		{"GET", "/health", "/health", ""},
		{"POST", "/cluster/tokens", "/cluster/tokens", `{"name":"a","role":"read"}`},
		{"DELETE", "/history", "/history", ""},
	} {
		response, body := s.do(c.method, c.url, c.body)
		status := response.Status[:3]
		at(t, document, "paths", c.path, strings.ToLower(c.method), "responses", status, "content", "application/json")
		schema, err := compiler.Compile(pointer("paths", c.path, strings.ToLower(c.method), "responses", status, "content", "application/json", "schema"))
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		require.NoError(t, err)
		require.NoErrorf(t, schema.Validate(value), "%s %s: %s", c.method, c.url, body)
	}
}

// The description refuses what the server refuses, as far as a schema can.
func TestRequestsAreAsDescribed(t *testing.T) {
	s := start(t)
	_, compiler := describe(t, s)
	schema, err := compiler.Compile(pointer("paths", "/train", "post", "requestBody", "content", "application/json", "schema"))
	require.NoError(t, err)
	for body, ok := range map[string]bool{
		`{"model_type":"m","batch_size":64,"epochs":1,"dataset":"digits","lr":0.1,"function_name":"mlp","options":{}}`: true,
		`{"function_name":"mlp","dataset":"digits"}`: true,
		`{"function_name":"mlp","dataset":"digits","options":{"k":null,"shuffle":false,"max_time":"1h","function_timeout":90,"chaos":{"kill":0.1},"args":{"a":"b"}}}`: true,
		`{"function_name":"mlp","dataset":"digits","options":null,"epochs":null}`:                                                                                     true,
		`{"function_name":"mlp","dataset":"digits","options":{"kay":1}}`:                                                                                              false,
		`{"function_name":"mlp","dataset":"digits","options":{"k":"auto"}}`:                                                                                           false,
		`{"function_name":"mlp","dataset":"digits","epocs":1}`:                                                                                                        false,
		`{"function_name":"mlp","dataset":"digits","epochs":1.5}`:                                                                                                     false,
		`{"function_name":"mlp"}`: false,
		`[]`:                      false,
	} {
		var value any
		require.NoError(t, json.Unmarshal([]byte(body), &value))
		require.Equal(t, ok, schema.Validate(value) == nil, body)
		_, err := jobjson.DecodeTask([]byte(body))
		require.Equal(t, ok, err == nil, body)
	}
}
