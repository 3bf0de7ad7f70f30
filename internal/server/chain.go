package server

import (
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"

	"proviso.dev/proviso/internal/auditsink"
	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/crdschema"
	"proviso.dev/proviso/internal/enforce"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/notes"
	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/restrict"
	"proviso.dev/proviso/internal/snapshot"
)

// The path of a request, top to bottom. Stages of ours are marked with »; the others are upstream's, in upstream's order.
//
//	  TLS, panic recovery, request info, time-outs
//	» pinSnapshot                  an empty holder joins the request, with the policy of this moment          handoff
//	  authentication               who is it
//	  audit                        the level of the event
//	  impersonation                asks the gate whether the user may act as somebody else                    authorize
//	  priority and fairness
//	» authorization                the gate asks the chain: allowed, refused, or allowed under conditions     authorize
//	     system-masters → replicas → policy-sync → node-restriction → the configured authorizers, lazily
//	     nothing can allow it: 403, the body is never read
//	» onlyKnown                    what the request's snapshot does not know by its kind is not served to it
//	» declarations                 field permissions are lifted out of the schemas of CRDs, and shown again   crdschema
//	» withhold                     errors that quote an object stay with who may not see it
//	  aggregator → kube → extensions   which server serves it
//	  decoding, defaulting, conversion
//	  mutating admission           last of all, what a CRD declares is settled with what is stored          crdschema
//	     and a Binding is pinned to the pod that it will be compared with                                    enforce
//	     update that creates: the handler asks the gate again, for create                                    authorize
//	» enforcer                     first in validating admission: the conditions are met by this object      enforce
//	     then: the caller may change these fields, set these labels and annotations
//	  validating admission         policies, webhooks
//	  storage
//	  audit                        the event goes to the sinks

// stages are the parts of ours on that path.
type stages struct {
	store *snapshot.Store
	plan  *authzPlan
	kit   *authorizerKit
	gate  *authorize.Gate
	// indexed is the part of the chain that the rule index can enumerate.
	indexed *authorize.Chain
	// compiler compiles the conditions of rules.
	compiler *restrict.Compiler
	// sources are where policy comes from, for readiness.
	sources *sources
	// warmer compiles them in the background.
	warmer *snapshot.Warmer
	// master is the namespace whose policy holds everywhere.
	master string
	// fields is what field permissions need; nil while they are off.
	fields *fieldRights
	// events tells people what is wrong with an object.
	events *events
	// definition finds the definition of a custom kind; it is set before the server runs.
	definition func(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition
	// router is the audit backend; nil while dynamic audit is off.
	router *auditsink.Router
	// known is what serves requests at the moment.
	known *knownAPIs
	plugs plugs
}

// plugs are further stages: what a test wants to see on the path of a request.
type plugs struct {
	// links stand in the chain right behind policy-sync.
	links []authorize.Link
	// validators run in the enforcer once the conditions are met.
	validators []admission.ValidationInterface
	// parts join the policy snapshot, which is not synced before they are.
	parts []snapshot.Part
	// auditBackend and auditEvaluator stand beside the configured ones.
	auditBackend   audit.Backend
	auditEvaluator audit.PolicyRuleEvaluator
	// configured may change the configuration of the built-in resources before the others are copied from it.
	configured func(c *config, generic *genericapiserver.Config) error
}

// wrapHandlers puts our filters around upstream's, in the one handler chain that runs. The chain that was built before is
// kept: others may have wrapped it already.
func (s *stages) wrapHandlers(aggregator *genericapiserver.Config) {
	build := aggregator.BuildHandlerChainFunc
	aggregator.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = s.gate.AtFilter()
		if s.fields != nil {
			api = liftDeclarations(api, c)
		}
		return s.pinSnapshot(build(s.sources.announce(s.onlyKnown(s.withhold(api))), &filters))
	}
}

// pinSnapshot gives every request its holder and its notes. The policy of this moment decides everything later.
func (s *stages) pinSnapshot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(notes.With(handoff.With(ownContext(r), s.store.Current()))))
	})
}

// wrapAdmission puts the enforcer around the admission chain itself, where no flag can take it out.
func (s *stages) wrapAdmission(generic *genericapiserver.Config, informers informers.SharedInformerFactory) {
	namespaces := informers.Core().V1().Namespaces().Lister()
	plugin := &enforce.Plugin{
		Namespace: func(name string) (runtime.Object, error) { return namespaces.Get(name) },
	}
	behind := s.behind(generic)
	if s.fields != nil {
		plugin.Fields = &enforce.Fields{Ask: s.gate.Ask, Schemas: s.fields.schemas.of, Everywhere: s.gate.Chain.GrantedEverywhere, Behind: behind}
	}
	if enabled(ProtectedAttributes) {
		plugin.After = append(plugin.After, &enforce.ProtectedAttributes{Chain: s.gate.Chain, Everywhere: s.gate.Chain.GrantedEverywhere, Behind: behind})
	}
	if enabled(PolicyAuthorization) {
		plugin.After = append(plugin.After, enforce.Immortal{Namespace: s.master})
	}
	if enabled(PolicyAuthorization) {
		plugin.Effects = &enforce.Effects{Denied: s.gate.Denied, MayBeDenied: s.gate.MayBeDenied, Namespace: plugin.Namespace, Stored: newStored(generic)}
	}
	plugin.After = append(plugin.After, enforce.OurGroups{Groups: registry.Groups(), Serves: func(gv schema.GroupVersion) bool { return s.known.local[gv] }})
	plugin.After = append(plugin.After, s.plugs.validators...)
	if s.gate.UniformConnect {
		plugin.Connect = s.gate.Connect
	}
	enforcer := admissionmetrics.WithControllerMetrics(plugin, enforce.Name)
	chain := []admission.Interface{enforcer}
	if generic.AdmissionControl != nil {
		chain = append(chain, generic.AdmissionControl)
	}
	if s.fields != nil {
		chain = append(chain, admissionmetrics.WithControllerMetrics(&crdschema.Plugin{Expressions: s.fields.cel}, crdschema.Name))
	}
	if s.fields != nil || enabled(ProtectedAttributes) {
		chain = append(chain, admissionmetrics.WithControllerMetrics(&enforce.Pin{Behind: behind}, enforce.PinName))
	}
	generic.AdmissionControl = admission.NewChainHandler(chain...)
}
