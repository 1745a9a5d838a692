package api

import (
	"errors"
	"math"
	"net/http"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// jobsPath is below what endpoints of remote functions talk to their jobs.
const jobsPath = "/jobs/"

// answerFunction lets an endpoint at its job. What it may there its token says,
// that of an attempt, which is for the job to know; where clients need a token it
// needs that, wherever it comes from.
func (s *Server) answerFunction(plain http.ResponseWriter, r *http.Request) {
	w := plain.(*response)
	if err := s.gate.Check(r, access.Anybody); err != nil {
		s.fail(w, r, httpfault.WithStatus(http.StatusForbidden, err))
		return
	}
	if s.tokens != nil && r.Header.Get("Authorization") == "" {
		s.fail(w, r, httpfault.WithStatus(http.StatusUnauthorized, errors.New("send the token of the invocation: Authorization: Bearer …")))
		return
	}
	upload(r, math.MaxInt64) // the job knows how long a model is
	s.jobs.ServeHTTP(w, r)
}
