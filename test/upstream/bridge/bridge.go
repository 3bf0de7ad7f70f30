//go:build upstream

package bridge

import (
	"os"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"

	"proviso.dev/proviso/internal/hosts/apiserver"
)

// Environment of a test binary. The runner sets the first.
const (
	mode        = "PROVISO_UPSTREAM"             // on: Proviso. off: upstream's code as it is. chain: stock, but framework.StartTestServer starts the whole chain of servers.
	spool       = "PROVISO_UPSTREAM_SPOOL"       // a directory: dynamic audit is served too
	alwaysAllow = "PROVISO_UPSTREAM_ALWAYSALLOW" // stock's default of --authorization-mode
	own         = "PROVISO_UPSTREAM_OWN"         // keep Proviso's own kinds in tests that try every kind
)

// On reports whether Proviso stands in for kube-apiserver.
func On() bool { return os.Getenv(mode) == "on" }

// Chain reports whether framework.StartTestServer starts the whole chain of servers; upstream starts the innermost
// only, which Proviso does not have.
func Chain() bool { return On() || os.Getenv(mode) == "chain" }

func init() {
	if On() {
		if err := apiserver.RegisterFeatures(); err != nil {
			panic(err)
		}
	}
}

// Plan is taken before the options are completed, as `proviso serve` does.
type Plan struct{ plan *apiserver.UpstreamPlan }

// NewPlan takes the options over. changed tells which flags were given.
func NewPlan(s *options.ServerRunOptions, changed func(string) bool) (*Plan, error) {
	p, err := apiserver.NewUpstreamPlan(s, func(name string) bool {
		switch name {
		case "etcd-servers":
			return true // a drop-in
		case "data-dir", "controllers":
			return false
		}
		return changed(name)
	}, os.Getenv(spool), os.Getenv(alwaysAllow) != "")
	if err != nil {
		return nil, err
	}
	return &Plan{plan: p}, nil
}

// Assemble builds Proviso's servers.
func (p *Plan) Assemble(opts options.CompletedOptions, modify func(*controlplane.Config)) (*aggregatorapiserver.APIAggregator, error) {
	return p.plan.Assemble(opts, modify)
}

// clientCAs are those of the servers on one etcd, by its prefix.
var clientCAs sync.Map

// ClientCA is the client CA of the first server on an etcd. Upstream gives each of several servers one of its own;
// Proviso's replicas share one, or do not start (SV-14).
func ClientCA(prefix string, pem []byte) []byte {
	if !On() {
		return pem
	}
	first, _ := clientCAs.LoadOrStore(prefix, pem)
	return first.([]byte)
}

// Stock leaves out what only Proviso serves: tests that try every kind that is served know the kinds of Kubernetes
// only.
func Stock(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	if !On() || os.Getenv(own) != "" {
		return lists
	}
	var stock []*metav1.APIResourceList
	for _, l := range lists {
		switch group, _, _ := strings.Cut(l.GroupVersion, "/"); {
		case strings.HasSuffix(group, ".proviso.dev"), group == "auditregistration.k8s.io", l.GroupVersion == "authorization.k8s.io/v1alpha1":
		default:
			stock = append(stock, l)
		}
	}
	return stock
}
