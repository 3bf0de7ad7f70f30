package selfclient

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/state/source"
)

// Clients reach the server itself.
type Clients struct {
	config *rest.Config
	// own reaches our groups; it differs from config if another process serves everything else.
	own  *rest.Config
	core func() (kubernetes.Interface, error)
}

// New returns clients for the loopback configuration, which may be completed later.
func New(config *rest.Config) *Clients {
	return Beside(config, config)
}

// Beside is for a host that serves our groups itself, beside a server that serves everything else.
func Beside(cluster, own *rest.Config) *Clients {
	return &Clients{config: cluster, own: own, core: sync.OnceValues(func() (kubernetes.Interface, error) { return kubernetes.NewForConfig(cluster) })}
}

// Config returns the current configuration.
func (c *Clients) Config() *rest.Config { return c.config }

// JSON returns the configuration for clients of objects without protobuf.
func (c *Clients) JSON() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return config
}

// Kubernetes returns a client of the built-in kinds.
func (c *Clients) Kubernetes() (kubernetes.Interface, error) { return c.core() }

// Group returns a client of one of our groups. The registry recognises its requests as the server's own.
func (c *Clients) Group(gv schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.own)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return ownTransport{next} })
	return source.Client(config, gv)
}

// GroupAs returns a client of one of our groups that may do everything, under a name other than the server's own: the
// journal records its changes.
func (c *Clients) GroupAs(gv schema.GroupVersion, name string) (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.own)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{user.SystemPrivilegedGroup}}
	return source.Client(config, gv)
}

// ownHeader and ownMark distinguish requests of these clients from those of the controllers, which use the same
// loopback. Only this process knows the mark.
const ownHeader = "X-Proviso-Own"

var ownMark = rand.Text()

type ownTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t ownTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(ownHeader, ownMark)
	return t.next.RoundTrip(r)
}

// Context marks a request of such a client for the registry. No other client can have the mark.
func Context(r *http.Request) context.Context {
	mark := r.Header.Get(ownHeader)
	if mark == "" {
		return r.Context()
	}
	r.Header.Del(ownHeader)
	if subtle.ConstantTimeCompare([]byte(mark), []byte(ownMark)) != 1 {
		return r.Context()
	}
	return AsServer(r.Context())
}
