package api

import (
	"errors"
	"net/http"
	"os"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// Health is the answer to GET /health.
type Health struct {
	Status  string `json:"status" doc:"ready"`
	Version string `json:"version" doc:"of troupe"`
}

// TokenRequest is what POST /cluster/tokens takes.
type TokenRequest struct {
	Name string `json:"name" doc:"by which it is revoked"`
	Role string `json:"role" doc:"read, submit or admin"`
}

// Token is a token that was created.
type Token struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Token string `json:"token"`
}

func (s *Server) cluster(w *response, r *http.Request) error {
	nodes, err := s.company.Cluster(r.Context())
	if err != nil {
		return err
	}
	w.json(http.StatusOK, neverNull(nodes))
	return nil
}

func (s *Server) createToken(w *response, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var asked TokenRequest
	if err := jobjson.Decode("request", body, &asked, "name", "role"); err != nil {
		return err
	}
	role, err := access.ParseRole(asked.Role)
	if err != nil {
		return err
	}
	if s.tokens == nil {
		return noTokens()
	}
	token, err := s.tokens.Create(asked.Name, role)
	if err != nil {
		return err
	}
	w.json(http.StatusCreated, Token{Name: asked.Name, Role: role.String(), Token: token})
	return nil
}

func (s *Server) revokeToken(w *response, r *http.Request) error {
	name := r.URL.Query().Get("name")
	if name == "" {
		return jobjson.Invalid("there is no name: give ?name= of the token")
	}
	if s.tokens == nil {
		return noTokens()
	}
	return deleted(w, s.tokens.Revoke(name))
}

func noTokens() error {
	return fault.New("api.tokens", fault.Conflict, "this server is for this machine and has no tokens: start it with --listen 0.0.0.0:8780")
}

func (s *Server) health(w *response, _ *http.Request) error {
	if err := s.company.Ready(); err != nil {
		return err
	}
	w.json(http.StatusOK, Health{Status: "ready", Version: s.version})
	return nil
}

func (s *Server) serveMetrics(w *response, r *http.Request) error {
	if s.metrics == nil {
		return fault.New("api.metrics", fault.NotFound, "this server counts nothing")
	}
	s.metrics.ServeHTTP(w, r)
	return nil
}

func (s *Server) describe(w *response, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi)
	return nil
}

// neverNull makes the empty list of none.
func neverNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
