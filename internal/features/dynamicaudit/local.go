package dynamicaudit

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
)

// Accounts are the service accounts of the cluster.
type Accounts interface {
	// UID returns the UID of an account; false if it does not exist.
	UID(namespace, name string) (string, bool)
	// Follow registers a function to call when an account is created or deleted.
	Follow(changed func()) (cache.InformerSynced, error)
}

// ground is what sinks of namespaces need.
type ground struct {
	Accounts
	sink.Allow
}

// noAccounts is for a host that does not know service accounts.
type noAccounts struct{}

// UID implements Accounts.
func (noAccounts) UID(string, string) (string, bool) { return "", false }

// Follow implements Accounts.
func (noAccounts) Follow(func()) (cache.InformerSynced, error) {
	return func() bool { return true }, nil
}

// asSink converts the sink of a namespace to a sink of the cluster. No AuditSink can have its name.
func asSink(s *policyv1alpha1.NamespaceAuditSink) *auditv1alpha1.AuditSink {
	like := &auditv1alpha1.AuditSink{ObjectMeta: s.ObjectMeta, Status: s.Status}
	like.Name, like.Namespace = s.Namespace+"/"+s.Name, ""
	like.Spec = auditv1alpha1.AuditSinkSpec{Policy: s.Spec.Policy, Webhook: s.Spec.Webhook, NotAfter: s.Spec.NotAfter, OmitManagedFields: s.Spec.OmitManagedFields, Redact: s.Spec.Redact}
	return like
}

func scopeOf(s *policyv1alpha1.NamespaceAuditSink, accounts Accounts) *sink.Scope {
	uid, found := accounts.UID(s.Namespace, s.Spec.ServiceAccountName)
	return &sink.Scope{Namespace: s.Namespace, Account: s.Spec.ServiceAccountName, UID: s.Spec.ServiceAccountUID, Gone: !found || uid != s.Spec.ServiceAccountUID}
}

// cutter cuts events to what service accounts may see (DA-17).
type cutter struct {
	k        *feature.Kernel
	accounts Accounts
}

// shownAnnotations are those that only say how a request was decided. Others name roles of other users, or quote
// objects.
var shownAnnotations = []string{"authorization.k8s.io/decision"}

// Cut implements sink.Cutter.
func (c cutter) Cut(ev *auditinternal.Event, scope sink.Scope, level auditrule.Level) (*auditinternal.Event, auditrule.Level, []string) {
	ref := ev.ObjectRef
	if ref == nil || ref.Namespace != scope.Namespace {
		return nil, auditrule.None, nil
	}
	if uid, found := c.accounts.UID(scope.Namespace, scope.Account); !found || scope.UID == "" || uid != scope.UID {
		return nil, auditrule.None, nil
	}
	out := *ev
	out.RequestURI, _, _ = strings.Cut(ev.RequestURI, "?")
	out.User.Extra = nil
	if ev.ImpersonatedUser != nil {
		impersonated := *ev.ImpersonatedUser
		impersonated.Extra, out.ImpersonatedUser = nil, &impersonated
	}
	out.Annotations = maps.Clone(ev.Annotations)
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return !slices.Contains(shownAnnotations, key) })
	account := serviceaccount.UserInfo(scope.Namespace, scope.Account, scope.UID)
	attrs := authorizer.AttributesRecord{
		User: account, Verb: "get", Namespace: ref.Namespace, APIGroup: ref.APIGroup, APIVersion: ref.APIVersion, Resource: ref.Resource, Name: ref.Name, ResourceRequest: true,
	}
	if s := ev.ResponseStatus; s != nil && s.Code >= http.StatusBadRequest {
		// The text names rules and admission policies of the whole cluster. The body of the response repeats it.
		out.ResponseStatus, out.ResponseObject = &metav1.Status{Status: s.Status, Code: s.Code, Reason: s.Reason}, nil
	}
	if level < auditrule.Request || !hasBody(ev) || !c.holds(attrs, ref.Subresource) {
		out.RequestObject, out.ResponseObject = nil, nil
		return &out, min(level, auditrule.Metadata), nil
	}
	return &out, level, c.reveals(attrs)
}

// neverBodies are resources of which a sink of a namespace only gets metadata, whatever its account may get: secrets,
// certificates and reviews.
var neverBodies = map[string]bool{"secrets": true, "podcertificaterequests.certificates.k8s.io": true, "certificatesigningrequests.certificates.k8s.io": true}

// hasBody reports whether the bodies of an event are one object, identified by its name, that may be shown at all.
// Lists and watches show objects for which the account's right was not checked; other subresources have their own
// bodies.
func hasBody(ev *auditinternal.Event) bool {
	ref := ev.ObjectRef
	resource := fieldperm.Resource{Group: ref.APIGroup, Resource: ref.Resource}.String()
	switch {
	case ref.Name == "", neverBodies[resource], strings.HasSuffix(ref.Resource, "reviews"), strings.Contains(ref.Resource, "token"):
		return false
	case ref.Subresource != "" && ref.Subresource != "status" && ref.Subresource != "scale":
		return false
	}
	return slices.Contains([]string{"get", "create", "update", "patch", "delete"}, ev.Verb)
}

// holds reports whether the account may get the object, and the subresource. Only an allow without a condition counts.
func (c cutter) holds(attrs authorizer.AttributesRecord, subresource string) bool {
	for _, sub := range slices.Compact([]string{"", subresource}) {
		attrs.Subresource = sub
		if decision, _, err := c.k.Gate.Chain.Authorize(context.Background(), attrs); err != nil || decision != authorizer.DecisionAllow {
			return false
		}
	}
	return true
}

// reveals returns the permissions whose hidden fields the account sees.
func (c cutter) reveals(attrs authorizer.AttributesRecord) (shown []string) {
	asked := map[string]bool{}
	for _, h := range c.k.Store.Current().Fields.Hidden(fieldperm.Resource{Group: attrs.APIGroup, Resource: attrs.Resource}) {
		if asked[h.Permission] {
			continue
		}
		asked[h.Permission] = true
		attrs.Verb, attrs.Subresource = h.Verb(), ""
		if decision, _, err := c.k.Gate.Chain.Authorize(context.Background(), attrs); err == nil && decision == authorizer.DecisionAllow {
			shown = append(shown, h.Permission)
		}
	}
	return shown
}

// stored is a sink by the name that the router knows, that of a namespace as one of the cluster; nil if there is none.
func (r *sinkReporter) stored(name string) (*auditv1alpha1.AuditSink, error) {
	objects := r.sinks
	if strings.Contains(name, "/") {
		objects = r.local
	}
	obj, exists, err := objects.GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return nil, err
	}
	switch s := obj.(type) {
	case *auditv1alpha1.AuditSink:
		return s, nil
	case *policyv1alpha1.NamespaceAuditSink:
		return asSink(s), nil
	}
	return nil, nil
}

// put writes the status of a sink.
func (r *sinkReporter) put(ctx context.Context, next *auditv1alpha1.AuditSink) error {
	namespace, name, local := strings.Cut(next.Name, "/")
	if !local {
		return r.client.Put().Resource("auditsinks").Name(next.Name).SubResource("status").Body(next).Do(ctx).Error()
	}
	body := &policyv1alpha1.NamespaceAuditSink{ObjectMeta: next.ObjectMeta, Status: next.Status}
	body.Namespace, body.Name = namespace, name
	return r.policy.Put().Namespace(namespace).Resource("namespaceauditsinks").Name(name).SubResource("status").Body(body).Do(ctx).Error()
}

// read reads a sink.
func (r *sinkReporter) read(ctx context.Context, name string) (*auditv1alpha1.AuditSink, error) {
	namespace, own, local := strings.Cut(name, "/")
	if !local {
		current := &auditv1alpha1.AuditSink{}
		return current, r.client.Get().Resource("auditsinks").Name(name).Do(ctx).Into(current)
	}
	current := &policyv1alpha1.NamespaceAuditSink{}
	err := r.policy.Get().Namespace(namespace).Resource("namespaceauditsinks").Name(own).Do(ctx).Into(current)
	return asSink(current), err
}
