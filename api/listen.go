package api

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
)

// Listen takes an address for a Server, whose port is known from then on: port 0
// means one that is free. Conflict: another process listens there; Invalid.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New("api.listen", fault.Conflict, "listen on %s: another process does: end it, or give another --listen", address)
	}
	return nil, fault.New("api.listen", fault.Invalid, "listen on %s: %w", address, err)
}

// Addresses are where a listener can be reached, host:port: by others first,
// the last one by clients of this machine.
func Addresses(l net.Listener) []string {
	address := l.Addr().(*net.TCPAddr)
	if !address.IP.IsUnspecified() {
		return []string{joined(address.IP, address.Port)}
	}
	var out []string
	here := net.IPv4(127, 0, 0, 1)
	for _, ip := range append(loopback.Others(), here) {
		if address.IP.To4() == nil || ip.To4() != nil { // 0.0.0.0 has none of IPv6
			out = append(out, joined(ip, address.Port))
		}
	}
	return out
}

func joined(ip net.IP, port int) string { return net.JoinHostPort(ip.String(), strconv.Itoa(port)) }
