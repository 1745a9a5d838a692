package invoker

import (
	"time"

	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// failed is the panic value of an invoker whose attempt failed. Its supervisor
// reads attempt, failure, slot and run time through the methods.
type failed struct {
	attempt *messages.AttemptRef
	failure *messages.Failure
	slot    uint32
	ran     time.Duration
	warned  []string
}

// Error returns the failure's text.
func (f failed) Error() string { return f.failure.GetText() }

// Unwrap returns the failure as an error of its kind.
func (f failed) Unwrap() error { return wire.Error(f.failure) }

// Attempt returns the attempt that failed.
func (f failed) Attempt() *messages.AttemptRef { return f.attempt }

// Failure returns the failure as the host sent it.
func (f failed) Failure() *messages.Failure { return f.failure }

// Slot returns the host's slot that the function ran on, from 1; 0: unknown.
func (f failed) Slot() uint32 { return f.slot }

// Warnings returns what the function warned of.
func (f failed) Warnings() []string { return f.warned }

// Ran returns for how long the function ran.
func (f failed) Ran() time.Duration { return f.ran }
