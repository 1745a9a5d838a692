package config

import (
	"errors"
	"net/url"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxURL is how long a URL may be, in bytes.
const maxURL = 2048

// CheckURL says what is wrong with the URL of a function's endpoint, or of a job:
// nil where it is http or https, with a host, without user, password or fragment,
// and with a query that can be read. Invalid: without what may be a password or a
// key.
func CheckURL(text string) error {
	invalid := func(format string, args ...any) error {
		return fault.New("config.url", fault.Invalid, format, args...)
	}
	if len(text) > maxURL {
		return invalid("the URL %.70q… has %d bytes: give at most %d", text, len(text), maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // which repeats all of it
			err = wrapped.Err
		}
		return invalid("that is no URL: %w", err)
	case u.User != nil:
		return invalid("the URL of host %q has a user name or a password: leave it out", u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid("the URL %q is neither http nor https: give one such as http://127.0.0.1:8000", text)
	case u.Opaque != "" || u.Hostname() == "":
		return invalid("the URL %q names no host: give one such as http://127.0.0.1:8000", text)
	case u.Fragment != "":
		return invalid("the URL %q has a fragment, which is not sent: leave out #%s", text, u.Fragment)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return invalid("the query of the URL %q cannot be read: %w", text, err)
	}
	return nil
}
