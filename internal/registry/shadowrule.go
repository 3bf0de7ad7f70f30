package registry

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/shadow"
)

// ShadowRules knows what rules that are not enforced would have changed.
type ShadowRules interface {
	// List lists all of them, in order.
	List() []shadow.Report
}

// shadowRules serves what is not enforced, for reading (TR-6). Nothing is stored. Who may read it is a right of its
// own: it names users and objects.
type shadowRules struct {
	rules  ShadowRules
	master string
}

var (
	_ rest.Scoper               = &shadowRules{}
	_ rest.Getter               = &shadowRules{}
	_ rest.Lister               = &shadowRules{}
	_ rest.SingularNameProvider = &shadowRules{}
	_ rest.ShortNamesProvider   = &shadowRules{}
)

// New returns an empty rule.
func (*shadowRules) New() runtime.Object { return &authz.ShadowRule{} }

// NewList returns an empty list.
func (*shadowRules) NewList() runtime.Object { return &authz.ShadowRuleList{} }

// Destroy does nothing.
func (*shadowRules) Destroy() {}

// NamespaceScoped is true: what the rules of a namespace would have changed concerns that namespace.
func (*shadowRules) NamespaceScoped() bool { return true }

// GetSingularName is the singular of the resource.
func (*shadowRules) GetSingularName() string { return "shadowrule" }

// ShortNames are what a user can type instead of the plural.
func (*shadowRules) ShortNames() []string { return []string{"shadow"} }

// Get reads one rule.
func (s *shadowRules) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	for _, r := range s.in(request.NamespaceValue(ctx)) {
		if r.Name == name {
			return &r, nil
		}
	}
	return nil, notFound(authz.Resource("shadowrules"), name)
}

// List reads the rules of a namespace, or all. A limit is a request, not a promise.
func (s *shadowRules) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	label, selector := labels.Everything(), fields.Everything()
	if options != nil {
		if options.Continue != "" {
			return nil, apierrors.NewBadRequest("continue: rules that are not enforced are listed as a whole; leave it out")
		}
		if options.LabelSelector != nil {
			label = options.LabelSelector
		}
		if options.FieldSelector != nil {
			selector = options.FieldSelector
		}
	}
	list := &authz.ShadowRuleList{Items: []authz.ShadowRule{}}
	for _, r := range s.in(request.NamespaceValue(ctx)) {
		if label.Matches(labels.Set(r.Labels)) && selector.Matches(fields.Set{"metadata.name": r.Name, "metadata.namespace": r.Namespace}) {
			list.Items = append(list.Items, r)
		}
	}
	return list, nil
}

// in are the rules of a namespace, or with "" all. What has no namespace is shown in the master namespace.
func (s *shadowRules) in(namespace string) []authz.ShadowRule {
	var all []authz.ShadowRule
	for _, report := range s.rules.List() {
		if rule := shadowRule(report, s.master); namespace == "" || rule.Namespace == namespace {
			all = append(all, rule)
		}
	}
	return all
}

func shadowRule(r shadow.Report, master string) authz.ShadowRule {
	out := authz.ShadowRule{
		ObjectMeta:  metav1.ObjectMeta{Name: r.Object(), Namespace: r.Namespace, CreationTimestamp: metav1.NewTime(r.Since)},
		About:       authz.ShadowedObject{Kind: string(r.Kind), Namespace: r.Namespace, Name: r.Name},
		Enforcement: r.Enforcement, Denies: r.Denies, Description: r.Description,
		Status: authz.ShadowRuleStatus{Since: metav1.NewTime(r.Since), Applied: r.Applied, WouldAllow: r.WouldAllow, WouldDeny: r.WouldDeny, Undecided: r.Undecided},
	}
	if out.Namespace == "" {
		out.Namespace = master
	}
	if r.Kind == shadow.Role {
		index := int32(r.Index)
		out.About.Rule = &index
	}
	for _, f := range r.Flips {
		out.Status.Flips = append(out.Status.Flips, authz.ShadowFlip{
			Time: metav1.NewMicroTime(f.Time), User: f.User, Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource, Subresource: f.Subresource,
			Namespace: f.Namespace, Name: f.Name, Path: f.Path, Was: string(f.Was), Would: string(f.Would),
		})
	}
	return out
}

// shadowColumns are what `kubectl get shadowrules` shows.
func shadowColumns() []column[*authz.ShadowRule] {
	return []column[*authz.ShadowRule]{
		{name: "Enforcement", description: "Warn or Shadow.", cell: func(r *authz.ShadowRule) any { return string(r.Enforcement) }},
		{name: "Effect", description: "What the rule does: allow or deny.", cell: func(r *authz.ShadowRule) any {
			if r.Denies {
				return "deny"
			}
			return "allow"
		}},
		{name: "Applied", kind: "integer", description: "The number of requests that it applied to.", cell: func(r *authz.ShadowRule) any { return r.Status.Applied }},
		{name: "Would allow", kind: "integer", description: "The number of refused requests that it would have allowed.", cell: func(r *authz.ShadowRule) any { return r.Status.WouldAllow }},
		{name: "Would deny", kind: "integer", description: "The number of allowed requests that it would have denied.", cell: func(r *authz.ShadowRule) any { return r.Status.WouldDeny }},
		{name: "Undecided", kind: "integer", description: "The number of requests of which cannot be told.", cell: func(r *authz.ShadowRule) any { return r.Status.Undecided }},
		{name: "Description", wide: true, description: "What the rule is for.", cell: func(r *authz.ShadowRule) any { return strings.TrimSpace(r.Description) }},
	}
}

// ConvertToTable prints rules.
func (*shadowRules) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return table[*authz.ShadowRule]{columns: shadowColumns(), resource: authz.Resource("shadowrules")}.ConvertToTable(ctx, object, tableOptions)
}
