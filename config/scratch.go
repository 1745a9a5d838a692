package config

import "github.com/troupe-ml/troupe/internal/fault"

// Scratch says where a process keeps the bytes that need not outlive it:
// models, answers and optimizer states of the rounds in flight.
type Scratch struct {
	// Dir is the folder in which each process makes a folder of its own.
	// Empty means: choose. That is /dev/shm where there is room, else the
	// folder for temporary files, with one warning.
	Dir string `json:"dir,omitempty"`

	// Limit is the most that this process may hold in scratch, in bytes.
	// 0 means: what the file system has.
	Limit int64 `json:"limit,omitempty"`
}

// DefaultScratch returns the scratch of a node that was told nothing: it
// chooses its folder, and takes what the file system has.
func DefaultScratch() Scratch { return Scratch{} }

// Validate returns an Invalid error that names the first value that cannot be.
func (s Scratch) Validate() error {
	if s.Limit < 0 {
		return fault.New("config.validate", fault.Invalid,
			"scratch limit of %d bytes: give a number above 0, or 0 for what the file system has", s.Limit)
	}
	return nil
}
