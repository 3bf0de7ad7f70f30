package managed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/source"
)

// Enforced is what a managed cluster enforces: the RBAC that is there, and compiled admission policies. It is decided
// by what is in the cluster, and not by the policy that it was compiled from (MC-5).
type Enforced struct {
	rbac    *offline.Host
	guards  []*guard
	origins map[string]string
	// places are the namespaces that are known, by their names.
	places map[string]*corev1.Namespace
}

// Question is one request.
type Question struct {
	User              user.Info
	Verb, Kind        string
	Namespace, Name   string
	Object, OldObject map[string]any
	// unidentified is true if the user stands for callers of whom not everything is known.
	unidentified bool
}

// Answer is what becomes of a request.
type Answer struct {
	// Decision is Allow, Deny, or Conditional if it depends on what the question does not have: an object, or more
	// about the caller.
	Decision string
	// Reason is what the caller would be told, and By the rules or objects of the policy that decided.
	Reason string
	By     []string
	// Messages are those of the policies in By that a condition holds for.
	Messages []string
}

// NewEnforced reads what is in a cluster: a dump. Objects that were not compiled count if they are of RBAC.
func NewEnforced(documents []manifests.Document, master string) (*Enforced, error) {
	e := &Enforced{origins: map[string]string{}, places: map[string]*corev1.Namespace{}}
	var rest []source.Text
	bound := map[string]bool{}
	for _, d := range documents {
		o := d.Object
		if o == nil {
			continue
		}
		if origin := o.GetAnnotations()[compile.Origin]; o.GetLabels()[compile.ManagedBy] == compile.Manager && origin != "" {
			e.origins[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = origin
		}
		switch group := o.GroupVersionKind().Group; {
		case group == admissionv1.GroupName:
			if err := e.admit(o, bound); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
		case strings.HasSuffix(group, ".proviso.dev") || group == "auditregistration.k8s.io": // not served there
		case group == "" && o.GetKind() == "Namespace":
			place := &corev1.Namespace{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, place); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			e.places[place.Name], rest = place, append(rest, d.Text)
		default:
			rest = append(rest, d.Text)
		}
	}
	// A policy that is not bound, or not to Deny, refuses nothing.
	e.guards = slices.DeleteFunc(e.guards, func(g *guard) bool { return !bound[g.policy.Name] })
	slices.SortFunc(e.guards, func(a, b *guard) int { return strings.Compare(a.policy.Name, b.policy.Name) })
	host, err := offline.New(offline.Config{Texts: rest, MasterNamespace: master})
	e.rbac = host
	return e, err
}

// Enforce reads what a cluster enforces: of a dump what is in it, and of a policy what it is compiled to. What cannot
// be had of the policy is an error, unless it is accepted.
func Enforce(documents []manifests.Document, master string, accept []string) (*Enforced, error) {
	if IsDump(documents) {
		return NewEnforced(documents, master)
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: master})
	if err != nil {
		return nil, err
	}
	result, err := Compile(host, accept)
	if err != nil {
		return nil, err
	}
	if lost := result.Impossible(); len(lost) > 0 {
		return nil, fmt.Errorf("a managed cluster cannot have %s: %s; do without with --accept %[1]s", lost[0].Rule, lost[0].Text())
	}
	return FromCompiled(result, documents, master)
}

// FromCompiled is the cluster to which a compiled policy was applied, beside the other documents.
func FromCompiled(result *compile.Result, documents []manifests.Document, master string) (*Enforced, error) {
	objects, err := Objects(append(slices.Clone(result.Policies), result.Grants...))
	if err != nil {
		return nil, err
	}
	all := slices.Clone(documents)
	for _, o := range objects {
		all = append(all, manifests.Of(o))
	}
	return NewEnforced(all, master)
}

// IsDump reports whether documents are of a cluster to which a policy was applied.
func IsDump(documents []manifests.Document) bool {
	return slices.ContainsFunc(documents, func(d manifests.Document) bool {
		return d.Object != nil && d.Object.GetLabels()[compile.ManagedBy] == compile.Manager
	})
}

// admit takes in an admission policy or its binding, if it was compiled.
func (e *Enforced) admit(o *unstructured.Unstructured, bound map[string]bool) error {
	if o.GetLabels()[compile.ManagedBy] != compile.Manager {
		return nil
	}
	switch o.GetKind() {
	case "ValidatingAdmissionPolicyBinding":
		var b admissionv1.ValidatingAdmissionPolicyBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
			return err
		}
		if slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && b.Spec.MatchResources == nil && b.Spec.ParamRef == nil && b.DeletionTimestamp == nil {
			bound[b.Spec.PolicyName] = true
		}
	case "ValidatingAdmissionPolicy":
		var p admissionv1.ValidatingAdmissionPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
			return err
		}
		if compile.Narrowed(&p) {
			return nil
		}
		g, err := newGuard(&p)
		if err != nil {
			return err
		}
		e.guards = append(e.guards, g)
	}
	return nil
}

// Decide answers a question.
func (e *Enforced) Decide(ctx context.Context, q Question) (Answer, error) {
	at, subresource, err := e.resource(q.Kind)
	if err != nil {
		return Answer{}, err
	}
	q = q.complete(at)
	attrs := authorizer.AttributesRecord{User: q.User, Verb: q.Verb, APIGroup: at.GroupVersion.Group, APIVersion: at.GroupVersion.Version,
		Resource: strings.Split(at.Name, "/")[0], Subresource: subresource, Namespace: q.Namespace, Name: q.Name, ResourceRequest: true}
	if q.Verb == verbs.Create && subresource == "" {
		attrs.Name = "" // the name of a new object is not in its request
	}
	decision, reason, err := e.rbac.Authorize(ctx, attrs)
	if decision != authorizer.DecisionAllow {
		if err != nil {
			reason = strings.TrimPrefix(reason+"; "+err.Error(), "; ")
		}
		if reason == "" {
			reason = "RBAC does not allow it"
		}
		return Answer{Decision: "Deny", Reason: reason}, nil
	}
	seen := e.see(&attrs, at, q)
	if seen == nil {
		return Answer{Decision: "Allow", Reason: reason, By: e.allowedBy(reason)}, nil
	}
	return e.admission(ctx, seen, reason)
}

// allowedBy are the roles of the policy that a reason of RBAC names.
func (e *Enforced) allowedBy(reason string) (by []string) {
	for key, origin := range e.origins {
		if _, name, _ := strings.Cut(key, "/"); strings.Contains(reason, strconv.Quote(name)) && !slices.Contains(by, origin) {
			by = append(by, origin)
		}
	}
	return by
}

// resource finds what a name means.
func (e *Enforced) resource(name string) (offline.Resource, string, error) {
	pattern, err := matching.ParseKind(name)
	if err != nil {
		return offline.Resource{}, "", err
	}
	patterns, _ := e.rbac.Snapshot().Served.Kinds().Expand(pattern, true, false)
	for _, r := range e.rbac.Resources() {
		resource, sub, _ := strings.Cut(r.Name, "/")
		for _, p := range patterns {
			if p.Res == resource && p.Sub == sub && p.InGroup(r.GroupVersion.Group) {
				return r, sub, nil
			}
		}
	}
	return offline.Resource{}, "", fmt.Errorf("%s: nothing that is known to be served has this name", name)
}

// Namespaced reports whether what a name means belongs to a namespace.
func (e *Enforced) Namespaced(name string) (bool, error) {
	r, _, err := e.resource(name)
	return r.Namespaced, err
}
