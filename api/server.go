package api

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Deps is what a Server stands on. Metrics, Jobs and Joins may be nil.
type Deps struct {
	Company Company
	Log     *zap.Logger
	Metrics Metrics
	// Jobs serves /jobs/…, for the endpoints of remote functions. It lets requests
	// pass by tokens of its own: those of this server are none of them.
	Jobs    http.Handler
	Joins   Joins  // nil: no node can join
	Version string // of troupe
	// Spool is a folder for what is being uploaded: the server's alone, which
	// makes it, and empties it when it starts.
	Spool string
	// Listener is what Listen gave for the configured address, the server's from
	// then on; nil: Start listens.
	Listener net.Listener
}

// Metrics counts requests and events, and shows what was counted.
type Metrics interface {
	http.Handler
	// Observe is called with each event, in the order of each job.
	Observe(e *messages.JobEvent)
	// Reset says that events are missing, of any job.
	Reset()
	// Request says that one was answered; route is its pattern.
	Request(route, method string, status int, took time.Duration)
}

// Server serves a company over HTTP until Close.
type Server struct {
	company Company
	config  config.API
	log     *zap.Logger
	metrics Metrics
	jobs    http.Handler // nil: none
	joins   Joins        // nil: none
	version string
	spool   string
	openapi []byte

	gate   *access.Gate
	tokens *access.Tokens // nil on loopback
	mux    *http.ServeMux

	streams chan struct{} // a place for each that is followed
	uploads chan struct{} // and each that is received

	http     *http.Server
	listener net.Listener
	first    bool
	ctx      context.Context // ends what is followed
	cancel   context.CancelFunc
	served   chan struct{} // closed when no connection is accepted any more
	observer sync.WaitGroup
	close    sync.Once
}

// Start listens and serves. Invalid: the configuration, or a port that is none;
// Conflict: somebody else listens there; Corrupt: certificates; Unavailable.
func Start(c config.API, deps Deps) (_ *Server, err error) {
	defer func() {
		if err != nil && deps.Listener != nil {
			_ = deps.Listener.Close()
		}
	}()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		company: deps.Company, config: c, log: deps.Log, metrics: deps.Metrics, jobs: deps.Jobs, joins: deps.Joins, version: deps.Version, spool: deps.Spool,
		streams: make(chan struct{}, c.MaxStreams), uploads: make(chan struct{}, c.MaxUploads), served: make(chan struct{}),
	}
	s.openapi = description(routes(), s.version)
	if err := emptySpool(s.spool); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: c.Patience, IdleTimeout: c.Idle, MaxHeaderBytes: 64 << 10,
		ErrorLog: zap.NewStdLog(deps.Log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))), // what clients get wrong is theirs
		Protocols: func() *http.Protocols {
			p := &http.Protocols{}
			p.SetHTTP1(true)
			return p
		}(),
	}
	if !access.Loopback(c.Listen) {
		setup, err := access.Open(c.TLSDir, c.Hosts)
		if err != nil {
			return nil, err
		}
		s.http.TLSConfig, s.tokens, s.first = setup.TLS, setup.Tokens, setup.First
	}
	s.gate = access.NewGate(s.tokens)
	s.mux = s.newMux()
	if s.listener = deps.Listener; s.listener == nil {
		if s.listener, err = Listen(c.Listen); err != nil {
			return nil, err
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.serve()
	if s.metrics != nil {
		s.observer.Go(s.observe)
	}
	return s, nil
}

func (s *Server) serve() {
	defer close(s.served)
	l := netutil.LimitListener(s.listener, s.config.MaxConnections)
	var err error
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(l, "", "")
	} else {
		err = s.http.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("the API no longer accepts connections", zap.Error(err))
	}
}

// URL is where clients of this machine find the server.
func (s *Server) URL() string {
	urls := s.URLs()
	return urls[len(urls)-1]
}

// URLs are where clients find the server: those of other machines first, the
// last one is URL.
func (s *Server) URLs() []string {
	scheme := "http://"
	if s.tokens != nil {
		scheme = "https://"
	}
	urls := Addresses(s.listener)
	for i := range urls {
		urls[i] = scheme + urls[i]
	}
	return urls
}

// JobURL is where endpoints of remote functions find a job.
func (s *Server) JobURL(id string) string {
	return cmp.Or(strings.TrimRight(s.config.JobURL, "/"), s.URLs()[0]) + jobsPath + id
}

// Fingerprint is that of the authority, in lower-case hexadecimal, that has
// signed the certificate which JobURL shows; "" where it is none of this server's.
func (s *Server) Fingerprint() string {
	if s.tokens == nil || strings.HasPrefix(s.config.JobURL, "http:") {
		return ""
	}
	sum := s.tokens.Authority()
	return hex.EncodeToString(sum[:])
}

// FirstStart reports whether this start has made certificates and tokens, which
// lie in the TLS folder.
func (s *Server) FirstStart() bool { return s.first }

// Close accepts no more requests, ends what is followed, waits for the other
// requests until ctx ends, and then cuts them off. A second call does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		s.cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			s.log.Warn("requests are cut off", zap.Error(err))
			_ = s.http.Close()
		}
		<-s.served
		s.observer.Wait()
	})
	return nil
}

// observe feeds the metrics until the server is closed.
func (s *Server) observe() {
	after := ""
	for {
		err := s.company.Events(s.ctx, "", after, func(e Event) error {
			if after = e.Cursor; e.Reset {
				s.metrics.Reset()
				return nil
			}
			s.metrics.Observe(e.Event)
			return nil
		})
		if s.ctx.Err() != nil {
			return
		}
		s.log.Warn("metrics get no events for a moment", zap.Error(err))
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// emptySpool makes the folder, and removes what a process that was killed left.
func emptySpool(dir string) error {
	const op = "api.spool"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(op, fault.Unavailable, "make a folder for uploads: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, spoolPattern))
	if err != nil {
		return fault.New(op, fault.Invalid, "folder for uploads %q: %w", dir, err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fault.New(op, fault.Unavailable, "remove what is left of an upload: %w", err)
		}
	}
	return nil
}
