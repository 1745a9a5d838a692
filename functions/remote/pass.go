package remote

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Pass gives what an endpoint asks about a job to the exchange that has it, at base;
// of the request's path prefix is left out. Who may ask is for the caller to know, as
// far as the token does not tell. Where nobody answers the endpoint hears that what,
// which has the exchange, does not.
func Pass(w http.ResponseWriter, r *http.Request, transport http.RoundTripper, base, prefix, what string) {
	to, err := url.Parse(base)
	if err != nil {
		Refuse(w, fault.New("remote.pass", fault.Unknown, "%s: %w", what, err))
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: zap.NewStdLog(zap.NewNop()),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, prefix)
			p.Out.URL.RawPath = ""
			p.SetURL(to)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			Refuse(w, fault.New("remote.pass", fault.Unavailable, "%s: %w", what, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// Refuse answers an endpoint with an error, as an exchange does.
func Refuse(w http.ResponseWriter, err error) { refuse(w, err) }

// Unauthorized answers an endpoint that has sent no token where one is needed.
func Unauthorized(w http.ResponseWriter) { refuse(w, unauthorized(sendToken)) }
