// Package e2e holds the end-to-end tests: they build the binary once and run it
// as a person would, in processes of its own, with a home, a store and a folder
// for temporary files of its own.
package e2e
