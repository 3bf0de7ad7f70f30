package sink

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// refuseAddress is the control function of a dialer: it sees every address after it was resolved, just before the
// connection, so no name can lead to a place that a sink must not reach.
func refuseAddress(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address of the sink: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("address of the sink: %w", err)
	}
	return forbidden(ip)
}

// Prefixes that carry an IPv4 address in their last or middle bytes.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	thisHost   = netip.MustParsePrefix("0.0.0.0/8")
)

// forbidden returns why a sink must not be at an address: it would reach what belongs to the server's own machine or
// link, such as another process's unprotected port or a cloud's metadata service.
func forbidden(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	kind := ""
	switch {
	case ip.IsUnspecified(), ip.Is4() && thisHost.Contains(ip):
		kind = "unspecified"
	case ip.IsLoopback():
		kind = "loopback"
	case ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast():
		kind = "link-local"
	case ip.IsMulticast():
		kind = "multicast"
	case !ip.IsValid():
		kind = "invalid"
	}
	if kind != "" {
		return &addressError{ip: ip, kind: kind}
	}
	if inner, ok := embedded(ip); ok {
		return forbidden(inner)
	}
	return nil
}

// embedded returns the IPv4 address that an IPv6 address stands for.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if ip.Is4() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compatible.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	default:
		return netip.Addr{}, false
	}
}

type addressError struct {
	ip   netip.Addr
	kind string
}

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is a %s address, which a sink must not be at; --audit-dynamic-allow-insecure-sinks allows it", e.ip, e.kind)
}
