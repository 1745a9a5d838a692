// Package loopback knows the names and addresses by which a machine reaches
// itself and nobody else reaches it, and its other ones.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Is reports whether a host, with or without a port, is this machine by a name
// that nobody else can give.
func Is(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// Others are the addresses of this machine by which others may reach it.
func Others() []net.IP {
	var out []net.IP
	addresses, _ := net.InterfaceAddrs() // those that are found are better than none
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP)
		}
	}
	return out
}
