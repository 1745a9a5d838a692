// Package api serves a node over HTTP: KubeML's controller paths and field
// names, and ours; see docs/api.md. It holds no state of its own: what it says
// comes from the Company behind it. Package client speaks it.
package api
