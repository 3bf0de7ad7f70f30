package server

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/enforce"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/loopback"
	"proviso.dev/proviso/internal/notes"
	"proviso.dev/proviso/internal/source"
	"proviso.dev/proviso/internal/system"
)

// The path of a request, top to bottom. Stages of ours are marked with »; the others are upstream's, in upstream's order. A test compares
// the picture with what is composed.
//
//	  TLS
//	» pinSnapshot                  an empty holder joins the request, with the policy of this moment          handoff
//	  PanicRecovery
//	  RequestInfo
//	  Timeout
//	  Authentication               who is it
//	  Audit                        the level of the event; it goes to the sinks when the response ends         auditing
//	  Impersonation                asks the gate whether the user may act as somebody else                    authorize
//	  PriorityAndFairness
//	» Authorization                the gate asks the chain: allowed, refused, or allowed under conditions     authorize
//	     system-masters → replicas → policy-sync → node-restriction → policy-master → policy-namespace → node → rbac
//	     lazily, and from policy-master on as it is configured; nothing can allow it: 403, the body is never read
//	» announce                     /readyz names stored objects that cannot be read                           source
//	» onlyKnown                    what the request's snapshot does not know by its kind is not served to it  served
//	» withhold                     an error that quotes the object is kept from callers who may not get it    withhold
//	» declarations                 field permissions are lifted out of the schemas of CRDs, and shown again   fields
//	» schemadoc                    OpenAPI documents show the verbs of field permissions                      fields
//	  aggregator → our groups → kube → extensions   which server serves it
//	  decoding, defaulting, conversion
//	  mutating admission           upstream's plugins and webhooks
//	     update that creates: the handler asks the gate again, for create                                    authorize
//	» WriteEffects                 a Binding is pinned to the pod that it will be compared with               enforce
//	» FieldPermissionDeclarations  what a CRD declares is settled with what is stored                         crdschema
//	» AuthorizationConditionsEnforcer   first in validating admission: this object meets the conditions      enforce
//	     then: the caller may change these fields, set these labels and annotations
//	  validating admission         policies, webhooks
//	  storage

// stages are the parts of ours on that path: what the systems of this server add to it, in the order of the list.
type stages struct {
	kernel  *system.Kernel
	systems []system.System
	kit     *authorizerKit
	// health is how the sources of policy fare, for readiness, and events tells people what is wrong with an object.
	health *source.Health
	events *loopback.Events
	// resolver finds services of the cluster, as soon as upstream has made it.
	resolver *lateResolver
}

// links stand ahead of the configured authorizers.
func (s *stages) links() (links []authorize.Link) {
	for _, one := range s.systems {
		links = append(links, one.Links...)
	}
	return links
}

// filters stand around the servers, outermost first.
func (s *stages) filters() (filters []system.Filter) {
	for _, one := range s.systems {
		filters = append(filters, one.Filters...)
	}
	return filters
}

// wrapHandlers puts our filters around upstream's, in the one handler chain that runs. The chain that was built before is
// kept: others may have wrapped it already.
func (s *stages) wrapHandlers(aggregator *genericapiserver.Config) {
	build := aggregator.BuildHandlerChainFunc
	aggregator.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = s.kernel.Gate.AtFilter()
		for _, f := range slices.Backward(s.filters()) {
			api = f.Wrap(api)
		}
		return s.pinSnapshot(build(api, &filters))
	}
}

// pinSnapshot gives every request its holder and its notes. The policy of this moment decides everything later.
func (s *stages) pinSnapshot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(notes.With(handoff.With(loopback.Context(r), s.kernel.Store.Current()))))
	})
}

// named is an admission plugin with its name.
type named struct {
	name   string
	plugin admission.Interface
}

// admission is what stands around upstream's admission chain: the enforcer ahead of it, and what mutates last behind it.
func (s *stages) admission() (ahead named, behind []named) {
	plugin := &enforce.Plugin{Namespace: s.kernel.Namespace}
	for _, one := range s.systems {
		if one.Enforce != nil {
			one.Enforce(plugin)
		}
		for _, m := range one.Mutators {
			if !slices.ContainsFunc(behind, func(have named) bool { return have.name == m.Name }) {
				behind = append(behind, named{m.Name, m.Plugin})
			}
		}
	}
	return named{enforce.Name, plugin}, behind
}

// wrapAdmission puts the enforcer around the admission chain itself, where no flag can take it out.
func (s *stages) wrapAdmission(generic *genericapiserver.Config) {
	ahead, behind := s.admission()
	chain := []admission.Interface{admissionmetrics.WithControllerMetrics(ahead.plugin, ahead.name)}
	if generic.AdmissionControl != nil {
		chain = append(chain, generic.AdmissionControl)
	}
	for _, one := range behind {
		chain = append(chain, admissionmetrics.WithControllerMetrics(one.plugin, one.name))
	}
	generic.AdmissionControl = admission.NewChainHandler(chain...)
}

// wrapAudit lets a system say where events go. Only the aggregator's handler chain runs, so that only there events are made.
func (s *stages) wrapAudit(aggregator *genericapiserver.Config) {
	for _, one := range s.systems {
		if one.Audit != nil {
			aggregator.AuditBackend, aggregator.AuditPolicyRuleEvaluator = one.Audit.Backend, one.Audit.Evaluator
		}
	}
	aggregator.LongRunningFunc = system.LongRunning(s.systems, aggregator.LongRunningFunc)
}
