// Package metrics counts what a node does, for Prometheus.
//
// The series of a job (label job) come with its first event and end with the
// job, so that a server that has run a million jobs shows those that run.
// Series without that label stay. docs/api.md lists them.
package metrics
