package sidecar

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"

	access "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/policycodec"
)

// genericConfig returns the configuration of an extension API server: it serves the aggregator, which the front-proxy
// certificate identifies, and health checks.
func (s *sidecar) genericConfig(listener net.Listener, storage *storagebackend.Config) (*genericapiserver.Config, error) {
	generic := genericapiserver.NewConfig(policycodec.Codecs)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.ExternalAddress = s.settings.Listen
	serving := serveroptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.ServerCert.CertKey = serveroptions.CertKey{CertFile: s.files.ServerCert, KeyFile: s.files.ServerKey}
	// The API server asks an address in its webhooks, and the Service where it passes requests on.
	serving.SNICertKeys = []cliflag.NamedCertKey{{Names: []string{s.settings.serviceHost()}, CertFile: s.files.ServiceCert, KeyFile: s.files.ServiceKey}}
	if err := serving.WithLoopback().ApplyTo(&generic.SecureServing, &generic.LoopbackClientConfig); err != nil {
		return nil, err
	}
	front, err := dynamiccertificates.NewDynamicCAContentFromFile("front-proxy", s.files.FrontProxyCACert)
	if err != nil {
		return nil, err
	}
	asking, err := dynamiccertificates.NewDynamicCAContentFromFile("kube-apiserver", s.files.CACert)
	if err != nil {
		return nil, err
	}
	generic.SecureServing.ClientCA = dynamiccertificates.NewUnionCAContentProvider(front, asking)
	list := func(names ...string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice(names) }
	health := []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/healthz"}}
	// As every extension API server does: the API server reads our documents as a user without groups.
	generic.Authentication.Authenticator = group.NewAuthenticatedGroupAdder(union.New(
		headerrequest.NewDynamicVerifyOptionsSecure(front.VerifyOptions, list(pki.ProxyClientName), list("X-Remote-User"), list("X-Remote-Uid"), list("X-Remote-Group"), list("X-Remote-Extra-")),
		anonymous.NewAuthenticator(health)))
	if err := registry.Configure(generic, *serveroptions.NewEtcdOptions(storage), s.kinds.Definitions); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return generic, nil
}

// storage is where policy is kept.
func (e *etcdSettings) storage(endpoints []string) *storagebackend.Config {
	c := storagebackend.NewDefaultConfig(cmp.Or(e.Prefix, "/proviso"), nil)
	c.Transport.ServerList = endpoints
	c.Transport.TrustedCAFile, c.Transport.CertFile, c.Transport.KeyFile = e.CAFile, e.CertFile, e.KeyFile
	return c
}

// guard puts the gate and the enforcer into the server of our groups, and the webhooks in front of it. Where nothing
// here has an opinion, the API server is asked, with all the authorizers it has.
func (s *sidecar) guard(generic *genericapiserver.Config, trusted func(*http.Request) error) error {
	client, err := kubernetes.NewForConfig(s.cluster)
	if err != nil {
		return err
	}
	elsewhere, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: time.Second, DenyCacheTTL: time.Second,
		WebhookRetryBackoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Steps: 2},
	}.New()
	if err != nil {
		return err
	}
	links := append(append([]authorize.Link{}, s.kernel.Gate.Chain.Links()...), authorize.Link{Name: "kube-apiserver", Authorizer: brief{elsewhere}})
	chain, err := s.kernel.Gate.Chain.With(links...)
	if err != nil {
		return err
	}
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Explain: true,
		Local: authorize.LocalFunc(func(group, _ string) bool { return slices.Contains(policycodec.Groups(), group) })})
	generic.Authorization.Authorizer = gate.InHandlers()
	generic.RuleResolver = chain
	stages := []admission.Interface{feature.Enforcer(s.kernel, s.systems), exemptWarner{s.settings.exempt()}}
	for _, m := range feature.Mutators(s.systems) {
		stages = append(stages, m.Plugin)
	}
	generic.AdmissionControl = admission.NewChainHandler(stages...)
	feature.WrapHandlers(generic, gate, s.kernel.Store, s.systems)
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return s.webhooks(trusted, build(s.tail(api), c))
	}
	return nil
}

// tail serves what systems serve beside the API, as far as a stock server passes it on: live audit events. The caller
// has been authenticated and authorized as for everything else here, and the handler checks more.
func (s *sidecar) tail(next http.Handler) http.Handler {
	var live http.Handler
	for _, one := range s.systems {
		for _, p := range one.Paths {
			if p.Path == auditv1alpha1.TailPath {
				live = p.Handler
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if live != nil && r.URL.Path == auditv1alpha1.TailBesidePath {
			live.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// groupVersions are the versions of our groups that are served here. Access requests need a Proviso server, which sees
// who impersonates whom (TM-16).
func groupVersions() []schema.GroupVersion {
	return slices.DeleteFunc(policycodec.GroupVersions(), func(gv schema.GroupVersion) bool { return gv.Group == access.GroupName })
}
