//go:build invariants

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Enabled reports whether this build has failpoints.
const Enabled = true

const (
	failEnv  = "TROUPE_FAILPOINT"
	traceEnv = "TROUPE_FAILPOINT_TRACE"
)

// plan is what the environment asks for.
type plan struct {
	prefix string
	at     int  // passing that fails, from 1; 0: none
	full   bool // fail with ENOSPC instead of SIGKILL

	mu     sync.Mutex // guards what follows
	passed int        // passings of points with the prefix
	trace  *os.File   // nil: none
}

// fromEnv is the plan of this process. It is a variable of the package because
// whoever passes a point knows nothing of it: that is what makes a failpoint.
var fromEnv = sync.OnceValue(func() *plan {
	p, err := parse(os.Getenv(failEnv))
	if path := os.Getenv(traceEnv); err == nil && path != "" {
		p.trace, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err != nil {
		panic(err) // only a test sets these
	}
	return p
})

// Pass marks the point of that name. The process ends here, or Pass returns an
// error that wraps ENOSPC, if the environment says so; otherwise nil.
func Pass(name string) error {
	p := fromEnv()
	if p.at == 0 && p.trace == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trace != nil {
		if _, err := p.trace.WriteString(name + "\n"); err != nil {
			panic(fmt.Errorf("failpoint trace: %w", err))
		}
	}
	if !p.hits(name) {
		return nil
	}
	if p.full {
		return fmt.Errorf("failpoint %s: %w", name, unix.ENOSPC)
	}
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	select {} // a signal to oneself may take a moment
}

// hits counts a passing and reports whether it is the one that fails.
func (p *plan) hits(name string) bool {
	if p.at == 0 || !strings.HasPrefix(name, p.prefix) {
		return false
	}
	p.passed++
	return p.passed == p.at
}

// parse reads "prefix:n" or "prefix:n:full"; "" asks for nothing.
func parse(text string) (*plan, error) {
	if text == "" {
		return &plan{}, nil
	}
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "full" {
		return nil, fmt.Errorf("%s=%q: want prefix:n or prefix:n:full", failEnv, text)
	}
	at, err := strconv.Atoi(parts[1])
	if err != nil || at < 1 {
		return nil, fmt.Errorf("%s=%q: %q is no count from 1", failEnv, text, parts[1])
	}
	return &plan{prefix: parts[0], at: at, full: len(parts) == 3}, nil
}
