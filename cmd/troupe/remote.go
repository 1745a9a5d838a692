package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// noServer is what --server says for none, even if there is one.
const noServer = "none"

// remoteFlags say which server is meant.
type remoteFlags struct {
	server    string // "": that of this machine
	tokenFile string
	set       *pflag.FlagSet // they are part of
}

func (f *remoteFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.server, "server", "", "URL of the server, such as https://host:8780 (default: http://"+config.DefaultAPI().Listen+"); else $TROUPE_SERVER")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the token for that server; else $TROUPE_TOKEN")
}

// client returns a client for the server, which there must be: Unavailable
// where none was named and none answers.
func (s *session) client(f *remoteFlags) (*client.Client, error) {
	const op = "troupe.server"
	switch f.server {
	case "":
	case noServer:
		return nil, fault.New(op, fault.Unavailable,
			"this needs a server, and none is to be used (--server none, TROUPE_SERVER or the configuration): name one with --server URL, such as http://%s", config.DefaultAPI().Listen)
	default:
		return s.dial(f)
	}
	if c := s.nearby(); c != nil {
		return c, nil
	}
	return nil, fault.New(op, fault.Unavailable,
		"this needs a server, and none answers at http://%s: start one with troupe up, or name one with --server URL or TROUPE_SERVER", config.DefaultAPI().Listen)
}

// dial returns a client for the server that was named.
func (s *session) dial(f *remoteFlags) (*client.Client, error) {
	token, err := f.token(s.Getenv)
	if err != nil {
		return nil, err
	}
	c := client.Config{Server: f.server, Token: token, Lost: s.lost}
	if !f.set.Changed("token-file") && plainHere(f.server) {
		c.Token = "" // which is for another server
	}
	return client.New(c)
}

// nearby returns a client for the server of this machine, nil where none
// answers.
func (s *session) nearby() *client.Client {
	c, err := client.New(client.Config{Server: config.DefaultAPI().Listen, Lost: s.lost})
	if err != nil {
		return nil
	}
	if _, err := c.Version(context.Background()); err != nil && !client.Answered(err) { // one that answers may be not ready yet
		c.Close()
		return nil
	}
	return c
}

// plainHere reports whether a server is one of this machine without TLS.
func plainHere(server string) bool {
	host, plain := strings.CutPrefix(server, "http://")
	return (plain || !strings.Contains(server, "://")) && access.Loopback(strings.TrimSuffix(host, "/"))
}

// token returns what the flag names, else what the environment says, else what
// the configuration names.
func (f *remoteFlags) token(getenv func(string) string) (string, error) {
	const op = "troupe.token"
	if token := getenv("TROUPE_TOKEN"); token != "" && !f.set.Changed("token-file") {
		return token, nil
	}
	if f.tokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(f.tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(op, fault.NotFound, "token file %s: there is no such file", f.tokenFile)
	case err != nil:
		return "", fault.New(op, fault.Unavailable, "token file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(token) > 4096 || strings.ContainsAny(token, " \t\r\n") {
		return "", fault.New(op, fault.Invalid, "token file %s holds no token: it is one word on one line", f.tokenFile)
	}
	return token, nil
}
