package api

import (
	"net/http"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// route is a line of the table in docs/api.md: what is asked how, who may, who
// answers, and how it is described in /openapi.json. Nothing with an effect is a
// GET.
type route struct {
	method, path string
	role         access.Role
	handle       func(s *Server, w *response, r *http.Request) error

	summary string
	query   []parameter // beside those of the path
	headers []parameter // that mean something
	request content     // none: zero
	answers []content   // the first is the usual one
	errors  []int       // beside those that every route has
}

// parameter is part of a query or a header.
type parameter struct {
	name, doc string
	schema    schema
}

// content is a body: its type, and a value of the Go type that it holds, or nil
// where it is no JSON.
type content struct {
	status int // of a response
	media  string
	value  any
	doc    string
}

func jsonBody(v any) content { return content{media: "application/json", value: v} }

func answer(status int, v any, doc string) content {
	return content{status: status, media: "application/json", value: v, doc: doc}
}

func other(status int, media, doc string) content {
	return content{status: status, media: media, doc: doc}
}

func nothing(doc string) content { return content{status: http.StatusNoContent, doc: doc} }

// routes lists all that the API does.
func routes() []route {
	var all []route
	for _, part := range [][]route{jobRoutes(), historyRoutes(), catalogRoutes(), nodeRoutes()} {
		all = append(all, part...)
	}
	return all
}

func jobRoutes() []route {
	const bad, missing, conflict = http.StatusBadRequest, http.StatusNotFound, http.StatusConflict
	return []route{
		{
			method: "POST", path: "/train", role: access.Submit, handle: (*Server).train,
			summary: "Submit a job", request: jsonBody(trainBody{}), errors: []int{bad, missing, http.StatusRequestEntityTooLarge},
			headers: []parameter{{"Idempotency-Key", "the same key gives the same job, however often it is sent", schema{"type": "string"}}},
			answers: []content{other(http.StatusOK, "text/plain", "the id of the job; each header "+jobjson.WarningHeader+" has a warning, quoted")},
		},
		{
			method: "POST", path: "/infer", role: access.Submit, handle: (*Server).infer,
			summary: "Ask a trained model", request: jsonBody(InferRequest{}), errors: []int{bad, missing, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge},
			answers: []content{answer(http.StatusOK, InferResponse{}, "what the model says")},
		},
		{
			method: "GET", path: "/tasks", role: access.Read, handle: (*Server).tasks,
			summary: "List the jobs that have not ended, oldest first", answers: []content{answer(http.StatusOK, []jobjson.Task{}, "jobs")},
		},
		{
			method: "GET", path: "/tasks/{id}", role: access.Read, handle: (*Server).task,
			summary: "Show a job, ended or not", errors: []int{bad, missing}, answers: []content{answer(http.StatusOK, jobjson.TaskDetails{}, "the job")},
		},
		{
			method: "DELETE", path: "/tasks/{id}", role: access.Submit, handle: (*Server).stop,
			summary: "Stop a job: accepted, its end is an event", errors: []int{bad, missing, conflict},
			query: []parameter{
				{"reason", "for people", schema{"type": "string"}},
				{"life", "of the job as it was seen: 409 if it was resumed since", schema{"type": "integer", "minimum": 0}},
			},
			answers: []content{answer(http.StatusAccepted, jobjson.Accepted{}, "accepted")},
		},
		{
			method: "POST", path: "/tasks/{id}/resume", role: access.Submit, handle: (*Server).resume,
			summary: "Go on with a job that has ended, from its last checkpoint", request: jsonBody(ResumeRequest{}), errors: []int{bad, missing, conflict},
			answers: []content{answer(http.StatusAccepted, jobjson.Accepted{}, "accepted")},
		},
		{
			method: "POST", path: "/tasks/{id}/resize", role: access.Submit, handle: (*Server).resize,
			summary: "Set the parallelism of a job, from its next round on", request: jsonBody(ResizeRequest{}), errors: []int{bad, missing, conflict},
			answers: []content{answer(http.StatusAccepted, jobjson.Accepted{}, "accepted")},
		},
		{
			method: "GET", path: "/tasks/{id}/stacks", role: access.Read, handle: (*Server).stacks,
			summary: "Say where each running function of a job is", errors: []int{bad, missing}, answers: []content{other(http.StatusOK, "text/plain", "stacks")},
		},
		{
			method: "GET", path: "/tasks/{id}/logs", role: access.Read, handle: (*Server).logs,
			summary: "Show what functions of a job have printed", errors: []int{bad, missing},
			query: []parameter{
				{"follow", "1: go on until the job has ended", schema{"type": "string", "enum": []string{"0", "1"}}},
				{"heartbeat", "1, with follow: send an empty line now and then, which is of no function", schema{"type": "string", "enum": []string{"0", "1"}}},
				{"function", "of this function only", schema{"type": "integer", "minimum": 0}},
			},
			answers: []content{other(http.StatusOK, "text/plain", "lines, each behind the number of its function")},
		},
		{
			method: "GET", path: "/events", role: access.Read, handle: (*Server).events,
			summary: "Follow events as they come", errors: []int{bad, missing},
			query: []parameter{
				{"job", "of this job only, from its first one on, until it has ended", schema{"type": "string"}},
				{"after", "as the header Last-Event-ID", schema{"type": "string"}},
			},
			headers: []parameter{{"Last-Event-ID", "the id of an event: go on behind it", schema{"type": "string"}}},
			answers: []content{other(http.StatusOK, "text/event-stream", "server-sent events, see docs/api.md")},
		},
	}
}

func historyRoutes() []route {
	const bad, missing, conflict = http.StatusBadRequest, http.StatusNotFound, http.StatusConflict
	return []route{
		{
			method: "GET", path: "/history", role: access.Read, handle: (*Server).histories,
			summary: "List what all jobs have done, oldest first", answers: []content{answer(http.StatusOK, []jobjson.History{}, "histories")},
		},
		{
			method: "DELETE", path: "/history", role: access.Admin, handle: (*Server).pruneHistory,
			summary: "Forget all jobs that have ended; their models stay", answers: []content{answer(http.StatusOK, Pruned{}, "how many")},
		},
		{
			method: "GET", path: "/history/{id}", role: access.Read, handle: (*Server).history,
			summary: "Show what a job has done", errors: []int{bad, missing}, answers: []content{answer(http.StatusOK, jobjson.History{}, "history")},
		},
		{
			method: "DELETE", path: "/history/{id}", role: access.Submit, handle: (*Server).deleteHistory,
			summary: "Forget a job that has ended; its model stays", errors: []int{bad, missing, conflict}, answers: []content{nothing("forgotten")},
		},
		{
			method: "GET", path: "/models", role: access.Read, handle: (*Server).models,
			summary: "List models", answers: []content{answer(http.StatusOK, []Model{}, "models")},
		},
		{
			method: "GET", path: "/models/{id}", role: access.Read, handle: (*Server).model,
			summary: "Get the safetensors file of a model", errors: []int{bad, missing}, answers: []content{other(http.StatusOK, "application/octet-stream", "the file")},
		},
		{
			method: "DELETE", path: "/models/{id}", role: access.Submit, handle: (*Server).deleteModel,
			summary: "Delete a model", errors: []int{bad, missing, conflict}, answers: []content{nothing("deleted")},
		},
	}
}

func catalogRoutes() []route {
	const bad, missing, conflict, large = http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge
	return []route{
		{
			method: "GET", path: "/functions", role: access.Read, handle: (*Server).functions,
			summary: "List functions, built-in ones first", answers: []content{answer(http.StatusOK, []Function{}, "functions")},
		},
		{
			method: "GET", path: "/functions/{name}", role: access.Read, handle: (*Server).function,
			summary: "Show a function", errors: []int{bad, missing}, answers: []content{answer(http.StatusOK, Function{}, "the function")},
		},
		{
			method: "PUT", path: "/functions/{name}", role: access.Submit, handle: (*Server).putFunction,
			summary: "Create or replace a function", errors: []int{bad, missing, conflict, large},
			query: []parameter{{"file", "name of the one file, such as net.py; default: main.py", schema{"type": "string"}}},
			headers: []parameter{
				{"If-None-Match", "*: refuse to replace one", schema{"type": "string"}},
				{"If-Match", "*: refuse to create one", schema{"type": "string"}},
			},
			request: content{media: "text/x-python", doc: "one file of Python; or, as application/x-tar or application/gzip, a folder with main.py; or, as application/json, {\"url\": …} or {\"urls\": […]} of the endpoints that run it"},
			answers: []content{answer(http.StatusOK, Function{}, "the function")},
		},
		{
			method: "DELETE", path: "/functions/{name}", role: access.Submit, handle: (*Server).deleteFunction,
			summary: "Delete a function", errors: []int{bad, missing, conflict}, answers: []content{nothing("deleted")},
		},
		{
			method: "GET", path: "/dataset", role: access.Read, handle: (*Server).datasets,
			summary: "List data sets", answers: []content{answer(http.StatusOK, []Dataset{}, "data sets")},
		},
		{
			method: "GET", path: "/dataset/{name}", role: access.Read, handle: (*Server).dataset,
			summary: "Show a data set", errors: []int{bad, missing}, answers: []content{answer(http.StatusOK, Dataset{}, "the data set")},
		},
		{
			method: "POST", path: "/dataset/{name}", role: access.Submit, handle: (*Server).createDataset,
			summary: "Create a data set, all or nothing", errors: []int{bad, conflict, large},
			query: []parameter{
				{"label", "column of a CSV file that is y; default: the last", schema{"type": "string"}},
				{"test_share", "part to test with where there is none, between 0 and 1; default: 0.2", schema{"type": "number"}},
			},
			request: content{media: "multipart/form-data", doc: "files x-train, y-train, x-test, y-test; or one or more named file, as troupe run takes them"},
			answers: []content{answer(http.StatusOK, Dataset{}, "the data set")},
		},
		{
			method: "DELETE", path: "/dataset/{name}", role: access.Submit, handle: (*Server).deleteDataset,
			summary: "Delete a data set", errors: []int{bad, missing, conflict}, answers: []content{nothing("deleted")},
		},
	}
}

func nodeRoutes() []route {
	const bad, missing, conflict = http.StatusBadRequest, http.StatusNotFound, http.StatusConflict
	return []route{
		{
			method: "GET", path: "/cluster", role: access.Read, handle: (*Server).cluster,
			summary: "List nodes", answers: []content{answer(http.StatusOK, []Node{}, "nodes")},
		},
		{
			method: "GET", path: "/cluster/join", role: access.Anybody, handle: (*Server).joinPoint,
			summary: "Say where a node joins", errors: []int{missing}, answers: []content{answer(http.StatusOK, JoinPoint{}, "where")},
		},
		{
			method: "POST", path: "/cluster/tokens", role: access.Admin, handle: (*Server).createToken,
			summary: "Create a token", request: jsonBody(TokenRequest{}), errors: []int{bad, missing, conflict},
			answers: []content{answer(http.StatusCreated, Token{}, "the token, which is not to be had again")},
		},
		{
			method: "DELETE", path: "/cluster/tokens", role: access.Admin, handle: (*Server).revokeToken,
			summary: "Revoke a token", query: []parameter{{"name", "of the token", schema{"type": "string"}}}, errors: []int{bad, missing, conflict},
			answers: []content{nothing("revoked")},
		},
		{
			method: "GET", path: "/health", role: access.Anybody, handle: (*Server).health,
			summary: "Say whether the node takes jobs", errors: []int{http.StatusServiceUnavailable}, answers: []content{answer(http.StatusOK, Health{}, "it does")},
		},
		{
			method: "GET", path: "/metrics", role: access.Read, handle: (*Server).serveMetrics,
			summary: "Metrics for Prometheus", answers: []content{other(http.StatusOK, "text/plain", "metrics")},
		},
		{
			method: "GET", path: "/openapi.json", role: access.Anybody, handle: (*Server).describe,
			summary: "This description", answers: []content{other(http.StatusOK, "application/json", "OpenAPI 3.1")},
		},
	}
}
