package sink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Allow is where sinks of namespaces may be, in addition to services of the namespace: hosts by name, and addresses.
// The zero value allows nothing.
type Allow struct {
	hosts    []string
	prefixes []netip.Prefix
}

// ParseAllow reads host names, those with a leading "*." for all below, and CIDRs.
func ParseAllow(list []string) (Allow, error) {
	var a Allow
	for _, text := range list {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			a.prefixes = append(a.prefixes, prefix.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		name := normalHost(text)
		if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
			return Allow{}, fmt.Errorf("%q is neither a host name, such as audit.example.com or *.example.com, nor a CIDR", text)
		}
		a.hosts = append(a.hosts, name)
	}
	return a, nil
}

func normalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

var errNotAllowed = errors.New("this server does not allow sinks of namespaces to be there: --audit-namespace-sinks-allow says where they may be")

// Host returns why a host cannot be allowed; nil if it may be. A name may still resolve to an address that is not
// allowed.
func (a Allow) Host(host string) error {
	ip, err := netip.ParseAddr(host)
	if err == nil && a.has(ip) || err != nil && (a.named(host) || len(a.prefixes) > 0) {
		return nil
	}
	return errNotAllowed
}

func (a Allow) named(host string) bool {
	host = normalHost(host)
	return slices.ContainsFunc(a.hosts, func(name string) bool {
		below, all := strings.CutPrefix(name, "*")
		return name == host || all && strings.HasSuffix(host, below) && len(host) > len(below)
	})
}

func (a Allow) has(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// control checks each address of a host, once it is resolved.
func (a Allow) control(host string, next func(network, address string, c syscall.RawConn) error) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		text, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("address of the sink: %w", err)
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("address of the sink: %w", err)
		}
		if !a.has(ip) && !a.named(host) {
			return errNotAllowed
		}
		if next == nil {
			return nil
		}
		return next(network, address, c)
	}
}
