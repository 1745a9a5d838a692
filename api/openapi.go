package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// description returns the OpenAPI description of routes.
func description(routes []route, version string) []byte {
	components := schemas{}
	paths := map[string]map[string]any{}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = operation(r, components)
	}
	body, err := json.Marshal(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "Troupe", "version": version, "description": "Train neural networks with a company of actors. See docs/api.md."},
		"paths":   paths,
		"components": map[string]any{
			"schemas": components,
			"securitySchemes": map[string]any{
				"token": map[string]any{"type": "http", "scheme": "bearer", "description": "wanted everywhere but on loopback"},
			},
		},
	})
	if err != nil {
		panic(err) // made of text
	}
	return append(body, '\n')
}

// operation describes one route.
func operation(r route, components schemas) map[string]any {
	op := map[string]any{"operationId": operationID(r), "summary": r.summary, "responses": responses(r, components)}
	var parameters []map[string]any
	for _, name := range pathNames(r.path) {
		parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	for in, list := range map[string][]parameter{"query": r.query, "header": r.headers} {
		for _, p := range list {
			parameters = append(parameters, map[string]any{"name": p.name, "in": in, "description": p.doc, "schema": p.schema})
		}
	}
	slices.SortStableFunc(parameters, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprint(a["in"], a["name"]), fmt.Sprint(b["in"], b["name"]))
	})
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if r.request.media != "" {
		op["requestBody"] = map[string]any{"description": r.request.doc, "content": media(r.request, components), "required": r.path != "/tasks/{id}/resume"}
	}
	if r.role != access.Anybody {
		op["description"] = "For tokens with the role " + r.role.String() + " or above."
		op["security"] = []map[string]any{{}, {"token": []string{}}} // none is needed on loopback
	}
	return op
}

func responses(r route, components schemas) map[string]any {
	all := map[string]any{}
	for _, a := range r.answers {
		response := map[string]any{"description": a.doc}
		if a.media != "" {
			response["content"] = media(a, components)
		}
		all[strconv.Itoa(a.status)] = response
	}
	errors := slices.Concat(r.errors, []int{http.StatusInternalServerError})
	if r.role != access.Anybody {
		errors = append(errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	}
	for _, status := range errors {
		all[strconv.Itoa(status)] = map[string]any{
			"description": http.StatusText(status),
			"content":     media(jsonBody(httpfault.ErrorBody{}), components),
		}
	}
	return all
}

func media(c content, components schemas) map[string]any {
	of := schema{"type": "string"}
	switch {
	case c.value == trainBody{}:
		of = components.trainRequest()
	case c.value != nil:
		of = components.of(c.value)
	case c.media == "application/json":
		of = schema{"type": "object"}
	}
	return map[string]any{c.media: map[string]any{"schema": of}}
}

// trainBody stands for what DecodeTask reads.
type trainBody struct{}

// operationID makes a name of a route, as in get_tasks_id.
func operationID(r route) string {
	return strings.ToLower(r.method) + strings.NewReplacer("/", "_", "{", "", "}", "", ".", "_").Replace(r.path)
}

func pathNames(path string) []string {
	var names []string
	for _, match := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		names = append(names, match[1])
	}
	return names
}
