package config

import (
	"net"
	"regexp"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Cluster is how a node works together with those of other machines.
type Cluster struct {
	// Join is host:port of the API of a node of the cluster; empty: this node leads
	// one of its own.
	Join string `json:"join,omitempty"`
	// Listen is host:port for other nodes. Port 0: one that is free, and the same
	// after a restart if it still is; any other: that one and the next. Empty: the
	// host of API.Listen, or where this node joins every address but for a leader on
	// loopback.
	Listen string `json:"node_listen,omitempty"`
	// Advertise is the name or address by which other nodes reach this one; empty:
	// found out.
	Advertise string `json:"advertise,omitempty"`
	// Labels say what people want to know of this node when they choose.
	Labels map[string]string `json:"labels,omitempty"`
}

// LabelForm says what a label looks like.
const LabelForm = "give name=value, each of 1 to 63 letters, digits and . _ / -, with a letter or digit first and last"

// IsLabel reports whether there can be such a label.
func IsLabel(name, value string) bool {
	label := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
	return label.MatchString(name) && label.MatchString(value)
}

// ParseLabels reads labels, each name=value. Invalid: one is none, or there twice.
func ParseLabels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found || !IsLabel(name, value) {
			return nil, fault.New("config.labels", fault.Invalid, "label %q: %s", text, LabelForm)
		}
		if _, twice := labels[name]; twice {
			return nil, fault.New("config.labels", fault.Invalid, "label %q is given twice: give it one value", name)
		}
		labels[name] = value
	}
	return labels, nil
}

// Validate returns an Invalid error that names the first value that cannot be.
func (c Cluster) Validate() error {
	invalid := func(format string, args ...any) error {
		return fault.New("config.validate", fault.Invalid, format, args...)
	}
	if c.Join != "" {
		host, port, err := net.SplitHostPort(c.Join)
		if err != nil || host == "" || port == "0" || port == "" {
			return invalid("join %q: give host:port of a node's --listen, such as 10.0.0.1:8780", c.Join)
		}
	}
	if c.Listen != "" {
		_, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return invalid("node-listen %q: give host:port, such as 0.0.0.0:8790: %w", c.Listen, err)
		}
		if port == "65535" {
			return invalid("node-listen %q: actors take the next port, and there is none: give one up to 65534", c.Listen)
		}
	}
	if _, _, err := net.SplitHostPort(c.Advertise); err == nil || strings.ContainsAny(c.Advertise, " /") {
		return invalid("advertise %q: give a name or an address without a port", c.Advertise)
	}
	return nil
}
