package remote

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
)

// named is what a request says of the attempt that it is about. What it does not
// say is nil.
type named struct {
	function, epoch, round, attempt *int
	incarnation                     *uint64
	task                            functions.Task // "": not said
}

// nameOf reads a request. Invalid: what it says is no number, or out of range.
func nameOf(r *http.Request) (n named, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return n, fault.New("remote.find", fault.Invalid, "the query cannot be read: %w", err)
	}
	if function := r.PathValue("func"); function != "" {
		q.Set(argFunction, function)
	}
	for _, arg := range []struct {
		name string
		to   **int
	}{{argFunction, &n.function}, {argEpoch, &n.epoch}, {argRound, &n.round}, {argAttempt, &n.attempt}} {
		if !q.Has(arg.name) {
			continue
		}
		v, err := strconv.ParseUint(q.Get(arg.name), 10, 31)
		if err != nil {
			return n, badName(arg.name, q.Get(arg.name))
		}
		*arg.to = new(int(v))
	}
	if q.Has(argIncarnation) {
		v, err := strconv.ParseUint(q.Get(argIncarnation), 10, 64)
		if err != nil {
			return n, badName(argIncarnation, q.Get(argIncarnation))
		}
		n.incarnation = &v
	}
	if q.Has(argTask) {
		if n.task = functions.Task(q.Get(argTask)); !knownTask(n.task) {
			return n, badCall(argTask, q.Get(argTask), "give init, train, val or infer")
		}
	}
	return n, nil
}

func badName(name, text string) error {
	return fault.New("remote.find", fault.Invalid, "%s %.100q is no whole number from 0", name, text)
}

// means reports whether an attempt is one that the request may be about.
func (n named) means(r Ref) bool {
	is := func(want *int, got int) bool { return want == nil || *want == got }
	return is(n.function, r.Function) && is(n.epoch, r.Epoch) && is(n.round, r.Round) && is(n.attempt, r.Attempt) &&
		(n.incarnation == nil || *n.incarnation == r.Incarnation) && (n.task == "" || n.task == r.Task)
}

// find returns the one open attempt of a job that a request is about, and may be.
func (e *Exchange) find(job string, r *http.Request) (*attempt, error) {
	const op = "remote.find"
	name, err := nameOf(r)
	if err != nil {
		return nil, err
	}
	token, given, err := bearer(r)
	if err != nil {
		return nil, err
	}
	if !given {
		if err := e.mayComeWithout(r); err != nil {
			return nil, err
		}
	}
	open := e.attempts(job)
	var meant, allowed []*attempt
	most := 0
	for _, a := range open {
		most = max(most, a.inv.N, a.ref.Function+1)
		if !name.means(a.ref) {
			continue
		}
		meant = append(meant, a)
		if !given || subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 1 {
			allowed = append(allowed, a)
		}
	}
	switch {
	case len(open) > 0 && name.function != nil && *name.function >= most:
		return nil, fault.New(op, fault.NotFound, "there is no function %d: the job's functions are 0 to %d", *name.function, most-1)
	case len(meant) == 0:
		return nil, fault.New(op, fault.Conflict, "job %.100q has no open attempt of that name: it is over, or never was", job)
	case len(allowed) == 0:
		return nil, statusError{fault.New(op, fault.Conflict, "the token is not that of the attempt"), http.StatusForbidden}
	case len(allowed) == 1 || name.function == nil && ofOneModel(allowed):
		return allowed[0], nil
	}
	return nil, fault.New(op, fault.Conflict, "that may be each of %d open attempts of job %.100q: give incarnation, epoch, round, attempt and the token", len(allowed), job)
}

// ofOneModel reports whether attempts train from the same model.
func ofOneModel(attempts []*attempt) bool {
	first := attempts[0]
	for _, a := range attempts {
		if a.ref.Incarnation != first.ref.Incarnation || a.inv.ModelVersion != first.inv.ModelVersion ||
			(a.models == nil) != (first.models == nil) || a.inv.Model.Size != first.inv.Model.Size || a.inv.Model.Path != first.inv.Model.Path {
			return false
		}
	}
	return true
}

// bearer returns the token of a request; given is false when it has none.
func bearer(r *http.Request) (token string, given bool, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", false, unauthorized("Authorization is no Bearer token")
	}
	return token, true, nil
}

// mayComeWithout says why a request needs a token: it did not come over loopback,
// or a page in a browser sent it there.
func (e *Exchange) mayComeWithout(r *http.Request) error {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() || !loopback.Is(r.Host) {
		return unauthorized(sendToken)
	}
	if err := e.pages.Check(r); err != nil {
		return statusError{fault.New("remote.find", fault.Invalid, "%w", err), http.StatusForbidden}
	}
	return nil
}

const sendToken = "send the token of the invocation: Authorization: Bearer …"

func unauthorized(text string) error {
	return statusError{fault.New("remote.find", fault.Invalid, "%s", text), http.StatusUnauthorized}
}
