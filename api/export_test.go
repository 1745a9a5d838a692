package api

import "slices"

// Routes lists all routes, as in "GET /tasks", in order.
func Routes() []string {
	var all []string
	for _, r := range routes() {
		all = append(all, r.method+" "+r.path)
	}
	slices.Sort(all)
	return all
}
