package api

import (
	"errors"
	"net/http"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// Health is the answer to GET /health.
type Health struct {
	Status  string `json:"status" doc:"ready"`
	Version string `json:"version" doc:"of troupe"`
}

// JoinRole is the role of a token with which a node joins, and does nothing else.
const JoinRole = "join"

// Joins lets nodes into the cluster of a server.
type Joins interface {
	Point() JoinPoint
	// CreateToken makes a token of JoinRole, and returns it. Invalid: the name;
	// Conflict: there is one of that name.
	CreateToken(name string) (string, error)
	// RevokeToken makes one worthless. NotFound.
	RevokeToken(name string) error
}

// JoinPoint is where a node joins.
type JoinPoint struct {
	Address  string `json:"address" doc:"host:port of the leader's node listener"`
	Protocol uint32 `json:"protocol" doc:"that nodes speak"`
	Version  string `json:"version" doc:"of troupe"`
}

// TokenRequest is what POST /cluster/tokens takes.
type TokenRequest struct {
	Name string `json:"name" doc:"by which it is revoked"`
	Role string `json:"role" doc:"read, submit or admin; join: for a node, good for a day"`
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
	token, err := s.newToken(asked)
	if err != nil {
		return err
	}
	w.json(http.StatusCreated, Token{Name: asked.Name, Role: asked.Role, Token: token})
	return nil
}

func (s *Server) newToken(asked TokenRequest) (string, error) {
	if asked.Role == JoinRole {
		if s.joins == nil {
			return "", noJoins()
		}
		return s.joins.CreateToken(asked.Name)
	}
	role, err := access.ParseRole(asked.Role)
	if err != nil {
		return "", err
	}
	if s.tokens == nil {
		return "", noTokens()
	}
	return s.tokens.Create(asked.Name, role)
}

// revokeToken revokes all that have the name: tokens to join with have names of
// their own.
func (s *Server) revokeToken(w *response, r *http.Request) error {
	name := r.URL.Query().Get("name")
	if name == "" {
		return jobjson.Invalid("there is no name: give ?name= of the token")
	}
	if s.tokens == nil && s.joins == nil {
		return noTokens()
	}
	result := error(fault.New("api.tokens", fault.NotFound, "there is no token %.70q", name))
	if s.tokens != nil {
		result = either(result, s.tokens.Revoke(name))
	}
	if s.joins != nil {
		result = either(result, s.joins.RevokeToken(name))
	}
	return deleted(w, result)
}

// either is what became of two tokens of one name, of which there may be one.
func either(a, b error) error {
	switch {
	case fault.KindOf(a) == fault.NotFound:
		return b
	case fault.KindOf(b) == fault.NotFound:
		return a
	}
	return errors.Join(a, b)
}

// joinPoint says to anybody where to join: it is found out by who looks, and who
// has no token does not get further.
func (s *Server) joinPoint(w *response, _ *http.Request) error {
	if s.joins == nil {
		return noJoins()
	}
	w.json(http.StatusOK, s.joins.Point())
	return nil
}

func noJoins() error {
	return fault.New("api.join", fault.NotFound, "no node can join this server")
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
