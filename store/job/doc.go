// Package job is the catalog of jobs.
package job
