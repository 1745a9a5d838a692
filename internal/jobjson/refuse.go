package jobjson

import (
	"errors"
	"net/http"
	"os"

	"github.com/troupe-ml/troupe/internal/httpfault"
)

// Refuse is the error about a request that is wrong, with a status of its own.
func Refuse(status int, format string, args ...any) error {
	return httpfault.WithStatus(status, Invalid(format, args...))
}

// BodyError says why the body of a request could not be read, which is the
// client's doing. One whose time was up has failed with os.ErrDeadlineExceeded.
func BodyError(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Refuse(http.StatusRequestEntityTooLarge, "the request has more than %d bytes: send less", large.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Refuse(http.StatusRequestTimeout, "the request comes too slowly: send it again, on a faster line")
	}
	return Invalid("the request is cut off: %w", err)
}
