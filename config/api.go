package config

import (
	"net"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// API is how a node is reached over HTTP, and what one client may cost it.
type API struct {
	// Listen is host:port. Any host but that of loopback has TLS and wants tokens.
	Listen string `json:"listen"`
	// TLSDir holds certificates and tokens; needed where Listen is not loopback.
	TLSDir string `json:"tls_dir,omitempty"`
	// JobURL is where endpoints of remote functions find this node, where that is
	// not its own address: http or https, and in the latter case with the
	// certificate of this node. Empty: the first address.
	JobURL string `json:"job_url,omitempty"`
	// Hosts are names and addresses of this node beside those it knows of, for
	// its certificate.
	Hosts []string `json:"hosts,omitempty"`

	MaxConnections int `json:"max_connections"` // more wait until one ends
	MaxStreams     int `json:"max_streams"`     // that are followed at once: events and logs; more are refused
	MaxUploads     int `json:"max_uploads"`     // at once; more are refused

	MaxBody     int64 `json:"max_body"`     // bytes of a request in JSON
	MaxFunction int64 `json:"max_function"` // bytes of a function, unpacked
	MaxDataset  int64 `json:"max_dataset"`  // bytes of a data set

	// Patience is how long a client may take to send a header, to send a body in
	// JSON, or to take what it is sent; uploads may take that and a second for
	// each UploadRate bytes.
	Patience time.Duration `json:"patience"`
	// Idle is how long a connection without a request stays open.
	Idle time.Duration `json:"idle"`
	// Heartbeat is how often an event stream says that it lives.
	Heartbeat time.Duration `json:"heartbeat"`
}

// UploadRate is what the slowest client may send, in bytes a second.
const UploadRate = 8 << 10

// DefaultAPI returns an API for this machine.
func DefaultAPI() API {
	return API{
		Listen:         "127.0.0.1:8780",
		MaxConnections: 4096,
		MaxStreams:     1024,
		MaxUploads:     16,
		MaxBody:        16 << 20,
		MaxFunction:    64 << 20,
		MaxDataset:     64 << 30,
		Patience:       30 * time.Second,
		Idle:           2 * time.Minute,
		Heartbeat:      15 * time.Second,
	}
}

// Validate returns an Invalid error that names the first value that cannot be.
func (a API) Validate() error {
	invalid := func(format string, args ...any) error {
		return fault.New("config.validate", fault.Invalid, format, args...)
	}
	if _, _, err := net.SplitHostPort(a.Listen); err != nil {
		return invalid("listen %q: give host:port, such as 127.0.0.1:8780: %w", a.Listen, err)
	}
	if a.JobURL != "" {
		if err := CheckURL(a.JobURL); err != nil {
			return invalid("job-url: %w", err)
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"max_connections", int64(a.MaxConnections)},
		{"max_streams", int64(a.MaxStreams)},
		{"max_uploads", int64(a.MaxUploads)},
		{"max_body", a.MaxBody},
		{"max_function", a.MaxFunction},
		{"max_dataset", a.MaxDataset},
		{"patience", int64(a.Patience)},
		{"idle", int64(a.Idle)},
		{"heartbeat", int64(a.Heartbeat)},
	} {
		if n.value < 1 {
			return invalid("%s %d: give a number above 0", n.name, n.value)
		}
	}
	return nil
}
