package apiserver

import (
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/apis/rbacstorage"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/source"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// The path of a request, top to bottom. Stages of ours are marked with »; the others are upstream's, in upstream's
// order. A test compares the picture with what is composed.
//
//	  TLS
//	» pinSnapshot                  an empty state joins the request, with the policy of this moment           requestctx
//	  PanicRecovery
//	  RequestInfo
//	  Timeout
//	  Authentication               who is it
//	     ahead of all authenticators: what begins like a narrowed token is recognised by us alone             bearer
//	  Audit                        the level of the event; it goes to the sinks when the response ends         dynamicaudit
//	  Impersonation                asks the gate whether the user may act as another user                     authorize
//	  PriorityAndFairness
//	» Authorization                the gate asks the chain: allowed, refused, or allowed under conditions     authorize
//	     token → system-masters → replicas → policy-sync → node-restriction → policy-master → policy-namespace → node → rbac → access
//	     lazily, and from policy-master on as it is configured; nothing can allow it: 403, the body is never read
//	» announce                     /readyz names stored objects that cannot be read                           source
//	» receipt                      who writes policy is told its revision                                     freshness
//	» onlyKnown                    what the request's snapshot does not know by its kind is not served to it  freshness
//	» withhold                     an error that quotes the object is kept from callers who may not get it    errorfilter
//	» streams                      connections, logs and what is passed on end with the right to them         streams
//	» carry                        the user carries the narrowed token of the request                            bearer
//	» visible                      selectors narrow a list to what its caller may see                        readfilter
//	» unsharded                    the public parameter for shards is ignored, as by a stock server          readfilter
//	» declarations                 field permissions are lifted out of the schemas of CRDs, and shown again   fieldpermissions
//	» schemadoc                    OpenAPI documents show the verbs of field permissions                      fieldpermissions
//	» hidden                       responses to writes come without hidden fields, patches that would tell them are refused   fieldfilter
//	  aggregator → our groups → kube → extensions   which server serves it
//	  decoding, defaulting, conversion
//	» HiddenFields                 first in mutating admission: what the caller does not see is put back     fieldfilter
//	  mutating admission           upstream's plugins and webhooks
//	     update that creates: the handler asks the gate again, for create                                    authorize
//	» WriteEffects                 a Binding is pinned to the pod that it will be compared with               enforce
//	» FieldPermissionDeclarations  what a CRD declares is settled with what is stored                         crdschema
//	» AuthorizationConditionsEnforcer   first in validating admission: this object meets the conditions      enforce
//	     then: the caller may change these fields, set these labels and annotations
//	  validating admission         policies, webhooks
//	  storage                      ours around it: a get under a condition is decided on the object that is read; watches end with the right to them   readfilter
//	     and around that: readers get objects without the fields that are hidden from them                  fieldfilter

// stages are our parts on that path: what the systems of this server add to it, in the order of the list.
type stages struct {
	kernel  *feature.Kernel
	systems []feature.System
	// health knows the state of the policy sources, for readiness, and events reports what is wrong with an object.
	health *source.Health
	events *selfclient.Events
	// clock knows whether it can be trusted.
	clock *timekeeper.Keeper
	// journal keeps who changed which policy.
	journal *journal.Journal
	// resolver finds services of the cluster, as soon as upstream has made it.
	resolver *lateResolver
	// roles are those of RBAC, as soon as they are read.
	roles *lateRoles
	// rbac reads the storage of RBAC.
	rbac rbacstorage.Within
}

// wrapStorage lets systems wrap the storage of a server.
func (s *stages) wrapStorage(inner generic.RESTOptionsGetter, convert readfilter.Converter) generic.RESTOptionsGetter {
	for _, one := range s.systems {
		if one.Storage != nil {
			inner = one.Storage(inner, convert)
		}
	}
	return inner
}

// wrapAdmission puts the enforcer around the admission chain itself, where no flag can take it out.
func (s *stages) wrapAdmission(kube *genericapiserver.Config) {
	chain := []admission.Interface{admissionmetrics.WithControllerMetrics(feature.Enforcer(s.kernel, s.systems), enforce.Name)}
	for _, system := range s.systems {
		for _, one := range system.MutateFirst {
			chain = append(chain, admissionmetrics.WithControllerMetrics(one.Plugin, one.Name))
		}
	}
	if kube.AdmissionControl != nil {
		chain = append(chain, kube.AdmissionControl)
	}
	for _, one := range feature.Mutators(s.systems) {
		chain = append(chain, admissionmetrics.WithControllerMetrics(one.Plugin, one.Name))
	}
	kube.AdmissionControl = admission.NewChainHandler(chain...)
}

// wrapAudit lets a system choose where events go. Only the aggregator's handler chain runs, so events are created only
// there.
func (s *stages) wrapAudit(aggregator *genericapiserver.Config) {
	for _, one := range s.systems {
		if one.Audit != nil {
			aggregator.AuditBackend, aggregator.AuditPolicyRuleEvaluator = one.Audit.Backend, one.Audit.Evaluator
		}
	}
	if aggregator.AuditPolicyRuleEvaluator != nil {
		aggregator.AuditPolicyRuleEvaluator = quietAudit{aggregator.AuditPolicyRuleEvaluator, s.systems}
	}
	aggregator.LongRunningFunc = feature.LongRunning(s.systems, aggregator.LongRunningFunc)
}
