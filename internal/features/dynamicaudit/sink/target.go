package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// ServiceResolver finds the endpoint of a service; upstream's resolvers are some.
type ServiceResolver interface {
	ResolveEndpoint(namespace, name string, port int32) (*url.URL, error)
}

// target is where and how fast the batches of a sink are sent. It is made again when the webhook of the sink changes.
type target struct {
	webhook *v1alpha1.Webhook
	url     string // may hold secrets: never part of an error or a log
	client  *http.Client
	limiter *rate.Limiter
}

// targetConfig is what all targets have in common.
type targetConfig struct {
	allowInsecure bool
	services      ServiceResolver
	timeout       time.Duration
	allow         Allow
}

// newTarget checks the webhook again, whatever validation has accepted: a stored object can be older than a rule. Its
// errors show nothing of the URL but its host.
func newTarget(cfg targetConfig, w *v1alpha1.Webhook, scope *Scope) (*target, error) {
	roots, err := certificates(w.ClientConfig.CABundle)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !cfg.allowInsecure {
		dialer.Control = refuseAddress
	}
	t := &target{webhook: w.DeepCopy(), limiter: limiter(w.Throttle)}
	dial := dialer.DialContext
	switch c := &w.ClientConfig; {
	case (c.URL == nil) == (c.Service == nil):
		return nil, errors.New("spec.webhook.clientConfig: needs exactly one of url and service")
	case c.URL != nil:
		if t.url, err = checkURL(*c.URL, cfg.allowInsecure); err != nil {
			return nil, err
		}
		if scope != nil {
			u, err := url.Parse(t.url)
			if err == nil {
				err = cfg.allow.Host(u.Hostname())
			}
			if err != nil {
				return nil, fmt.Errorf("spec.webhook.clientConfig.url: %w", err)
			}
			dialer.Control = cfg.allow.control(u.Hostname(), dialer.Control)
		}
	default:
		if scope != nil && c.Service.Namespace != scope.Namespace {
			return nil, errors.New("spec.webhook.clientConfig.service: must be in the namespace of the sink")
		}
		if cfg.services == nil {
			return nil, errors.New("spec.webhook.clientConfig.service: services cannot be resolved here; use url")
		}
		t.url = serviceURL(c.Service)
		dial = dialService(dialer, cfg, c.Service, scope)
	}
	t.client = &http.Client{
		Timeout: cfg.timeout,
		// The answer is judged as it is: a redirect would lead to where the sink's author may not.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 nil, // none from the environment: a proxy would dial where we do not look
			DialContext:           dial,
			TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: cfg.timeout,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConns:          2,
			MaxConnsPerHost:       2,
			WriteBufferSize:       64 << 10,
			DisableCompression:    true,
			TLSNextProto:          map[string]func(string, *tls.Conn) http.RoundTripper{}, // one stream is enough
		},
	}
	return t, nil
}

func (t *target) close() {
	t.client.CloseIdleConnections()
}

func certificates(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil // those of the system
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("spec.webhook.clientConfig.caBundle: holds no PEM certificate")
	}
	return pool, nil
}

func limiter(t *v1alpha1.WebhookThrottleConfig) *rate.Limiter {
	qps, burst := v1alpha1.DefaultQPS, v1alpha1.DefaultBurst
	if t != nil && t.QPS != nil {
		qps = *t.QPS
	}
	if t != nil && t.Burst != nil {
		burst = *t.Burst
	}
	return rate.NewLimiter(rate.Limit(max(qps, 1)), int(min(max(burst, 1), 1<<20)))
}

func checkURL(text string, allowInsecure bool) (string, error) {
	const field = "spec.webhook.clientConfig.url: "
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New(field + "is not a URL") // the parser's error repeats the text
	case u.Scheme != "https" && (u.Scheme != "http" || !allowInsecure):
		return "", errors.New(field + "must begin with https://; --audit-dynamic-allow-insecure-sinks allows http as well")
	case u.Hostname() == "":
		return "", errors.New(field + "has no host")
	case u.User != nil:
		return "", errors.New(field + "must not hold a user name or password")
	case u.Fragment != "":
		return "", errors.New(field + "must not have a fragment")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !allowInsecure {
		if err := forbidden(ip); err != nil {
			return "", fmt.Errorf("%s%w", field, err)
		}
	}
	return u.String(), nil
}

func serviceName(ref *v1alpha1.ServiceReference) string {
	return ref.Name + "." + ref.Namespace + ".svc"
}

func servicePort(ref *v1alpha1.ServiceReference) int32 {
	if ref.Port != nil {
		return *ref.Port
	}
	return v1alpha1.DefaultServicePort
}

// serviceURL names the service as its certificate has to; where it is, is resolved at every dial.
func serviceURL(ref *v1alpha1.ServiceReference) string {
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(serviceName(ref), strconv.Itoa(int(servicePort(ref)))), Path: "/"}
	if ref.Path != nil && *ref.Path != "" {
		u.Path = "/" + strings.TrimPrefix(*ref.Path, "/")
	}
	return u.String()
}

func dialService(dialer *net.Dialer, cfg targetConfig, ref *v1alpha1.ServiceReference, scope *Scope) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		endpoint, err := cfg.services.ResolveEndpoint(ref.Namespace, ref.Name, servicePort(ref))
		if err != nil {
			return nil, fmt.Errorf("service %s cannot be resolved: %w", serviceName(ref), err)
		}
		to := dialer
		if host := endpoint.Hostname(); scope != nil && net.ParseIP(host) == nil && host != serviceName(ref) {
			// A service can be another name for any host.
			outside := *dialer
			outside.Control = cfg.allow.control(host, dialer.Control)
			to = &outside
		}
		address := endpoint.Host
		if endpoint.Port() == "" {
			address = net.JoinHostPort(endpoint.Hostname(), "443")
		}
		return to.DialContext(ctx, network, address)
	}
}
