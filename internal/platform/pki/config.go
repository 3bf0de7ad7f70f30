package pki

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
)

const (
	defaultCALife   = 10 * 365 * 24 * time.Hour
	defaultLeafLife = 365 * 24 * time.Hour
	// longestNotice bounds how long before its end a leaf is replaced; short-lived leaves are replaced when a third of
	// their life is left.
	longestNotice = 30 * 24 * time.Hour
	// backdate lets clients whose clock is a little behind accept a fresh certificate.
	backdate = 5 * time.Minute
)

// Config says for whom the certificates are made. The zero value is usable except for Port.
type Config struct {
	// BindAddress is the address the server listens on. Unspecified (nil, 0.0.0.0, ::) means all of them.
	BindAddress net.IP
	// AdvertiseAddress is the address other machines reach the server at; optional.
	AdvertiseAddress net.IP
	// Port is the port the server listens on; it goes into the kubeconfig.
	Port int
	// ServiceIPs are the addresses of the service default/kubernetes. Default: 10.0.0.1.
	ServiceIPs []net.IP
	// ClusterDomain is the DNS suffix of services. Default: cluster.local.
	ClusterDomain string
	// Hostname is this machine's name. Default: what the operating system says.
	Hostname string
	// ExtraNames are further host names or addresses the serving certificate must cover.
	ExtraNames []string
	// CALife and LeafLife are how long new certificates last. Default: ten years and one year.
	CALife, LeafLife time.Duration
	// Clock is replaced by tests.
	Clock clock.WithTicker

	// fault, in tests, is called before each step that changes the disk; an error stands for a crash at that point.
	fault func(step, path string) error
	// noSync, in tests, leaves out what only matters when the machine loses power, and takes most of the time.
	noSync bool
}

func (c Config) complete() (Config, error) {
	if c.Port < 1 || c.Port > 65535 {
		return c, fmt.Errorf("port %d is not between 1 and 65535", c.Port)
	}
	if len(c.ServiceIPs) == 0 {
		c.ServiceIPs = []net.IP{net.IPv4(10, 0, 0, 1)}
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	if c.Hostname == "" {
		// Without a name of its own a machine is still reachable by address.
		c.Hostname, _ = os.Hostname()
	}
	if c.CALife == 0 {
		c.CALife = defaultCALife
	}
	if c.LeafLife == 0 {
		c.LeafLife = defaultLeafLife
	}
	if c.CALife < 0 || c.LeafLife < 0 {
		return c, fmt.Errorf("certificate lifetimes %v and %v must be positive", c.CALife, c.LeafLife)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.fault == nil {
		c.fault = func(string, string) error { return nil }
	}
	for _, name := range c.ExtraNames {
		if net.ParseIP(name) == nil && !isHostname(name) {
			return c, fmt.Errorf("%q is neither an IP address nor a host name", name)
		}
	}
	return c, nil
}

// serverURL is where the kubeconfig points: a client on this machine can always reach it.
func (c Config) serverURL() string {
	host := c.BindAddress
	if host == nil || host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + net.JoinHostPort(host.String(), strconv.Itoa(c.Port))
}

// servingNames are the names and addresses the serving certificate must cover.
func (c Config) servingNames() (names []string, ips []net.IP) {
	names = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + c.ClusterDomain}
	ips = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	ips = append(ips, c.ServiceIPs...)
	for _, ip := range []net.IP{c.BindAddress, c.AdvertiseAddress} {
		if ip != nil && !ip.IsUnspecified() {
			ips = append(ips, ip)
		}
	}
	// An operating system accepts host names that no certificate can hold; such a machine is reached by address.
	for _, name := range append([]string{c.Hostname}, c.ExtraNames...) {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else if isHostname(name) {
			names = append(names, strings.ToLower(name))
		}
	}
	return unique(names, func(s string) string { return s }), unique(ips, net.IP.String)
}

func isHostname(name string) bool {
	name = strings.ToLower(name)
	return len(validation.IsDNS1123Subdomain(name)) == 0 || len(validation.IsWildcardDNS1123Subdomain(name)) == 0
}

func unique[T any](in []T, key func(T) string) []T {
	seen := map[string]bool{}
	var out []T
	for _, v := range in {
		if !seen[key(v)] {
			seen[key(v)] = true
			out = append(out, v)
		}
	}
	return out
}
