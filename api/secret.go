package api

import (
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/messages"
)

// hidden stands for the value of an environment variable, which may be a secret,
// towards who may look at jobs and not submit them.
const hidden = "***"

// mayKnow returns jobs as whoever asks may know them.
func (s *Server) mayKnow(r *http.Request, views ...*messages.JobView) []*messages.JobView {
	if s.gate.Check(r, access.Submit) == nil {
		return views
	}
	out := make([]*messages.JobView, 0, len(views))
	for _, v := range views {
		out = append(out, withoutEnv(v))
	}
	return out
}

// withoutEnv returns the job, or where its task has an environment a copy in
// which that has its names alone.
func withoutEnv(v *messages.JobView) *messages.JobView {
	if len(v.GetTask().GetOptions().GetEnv()) == 0 {
		return v
	}
	v = proto.CloneOf(v)
	env := v.GetTask().GetOptions().GetEnv()
	for name := range env {
		env[name] = hidden
	}
	return v
}
