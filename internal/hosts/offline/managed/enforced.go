package managed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/engine/connect"
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
}

// guard is one admission policy, with upstream's evaluator.
type guard struct {
	policy    *admissionv1.ValidatingAdmissionPolicy
	matcher   matchconditions.Matcher
	validator validating.Validator
}

// Question is one request.
type Question struct {
	User              user.Info
	Verb, Kind        string
	Namespace, Name   string
	Object, OldObject map[string]any
}

// Answer is what becomes of a request.
type Answer struct {
	// Decision is Allow, Deny, or Conditional if it depends on an object that the question does not have.
	Decision string
	// Reason is what the caller would be told, and By the rules or objects of the policy that decided.
	Reason string
	By     []string
	// Messages are those of the policies in By that a condition holds for.
	Messages []string
}

// NewEnforced reads what is in a cluster: a dump. Objects that were not compiled count if they are of RBAC.
func NewEnforced(documents []manifests.Document, master string) (*Enforced, error) {
	e := &Enforced{origins: map[string]string{}}
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
		if slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && b.Spec.MatchResources == nil {
			bound[b.Spec.PolicyName] = true
		}
	case "ValidatingAdmissionPolicy":
		var p admissionv1.ValidatingAdmissionPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
			return err
		}
		g, err := newGuard(&p)
		if err != nil {
			return err
		}
		e.guards = append(e.guards, g)
	}
	return nil
}

func newGuard(p *admissionv1.ValidatingAdmissionPolicy) (*guard, error) {
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	known := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []admissioncel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, known, environment.StoredExpressions)
	var match, checks, messages []admissioncel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		match = append(match, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		checks = append(checks, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, nil)
	}
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(match, known, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	validator := validating.NewValidator(compiler.CompileCondition(checks, known, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, known, environment.StoredExpressions), compiler.CompileCondition(messages, known, environment.StoredExpressions), p.Spec.FailurePolicy, nil)
	return &guard{p, matcher, validator}, validator.CompileError()
}

// Decide answers a question.
func (e *Enforced) Decide(ctx context.Context, q Question) (Answer, error) {
	at, subresource, err := e.resource(q.Kind)
	if err != nil {
		return Answer{}, err
	}
	attrs := authorizer.AttributesRecord{User: q.User, Verb: q.Verb, APIGroup: at.GroupVersion.Group, APIVersion: at.GroupVersion.Version,
		Resource: strings.Split(at.Name, "/")[0], Subresource: subresource, Namespace: q.Namespace, Name: q.Name, ResourceRequest: true}
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
	request := e.request(&attrs, at, q)
	if request == nil {
		return Answer{Decision: "Allow", Reason: reason, By: e.allowedBy(reason)}, nil
	}
	return e.admission(ctx, request, reason, q.Object == nil && q.OldObject == nil)
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

// operations are what admission calls the verbs.
var operations = map[string]admission.Operation{verbs.Create: admission.Create, verbs.Update: admission.Update, verbs.Patch: admission.Update,
	verbs.Delete: admission.Delete, verbs.DeleteCollection: admission.Delete}

// request is what admission sees; nil if the request is not admitted.
func (e *Enforced) request(attrs authorizer.Attributes, at offline.Resource, q Question) *admission.VersionedAttributes {
	operation, admitted := operations[q.Verb]
	if connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None {
		operation, admitted = admission.Connect, true
	}
	if !admitted {
		return nil
	}
	object, old := q.Object, q.OldObject
	switch {
	case operation == admission.Delete && old == nil:
		object, old = nil, object
	case operation == admission.Delete, operation == admission.Connect:
		object = nil
	case operation == admission.Create:
		old = nil
	}
	body := func(content map[string]any) runtime.Object {
		if content == nil {
			return nil
		}
		return &unstructured.Unstructured{Object: content}
	}
	name := q.Name
	for _, content := range []map[string]any{object, old} {
		if metadata, ok := content["metadata"].(map[string]any); ok && name == "" && q.Verb != verbs.DeleteCollection {
			name, _ = metadata["name"].(string)
		}
	}
	record := admission.NewAttributesRecord(body(object), body(old), at.Body, attrs.GetNamespace(), name,
		at.GroupVersion.WithResource(attrs.GetResource()), attrs.GetSubresource(), operation, nil, false, q.User)
	versioned := &admission.VersionedAttributes{Attributes: record, VersionedKind: at.Body}
	if object != nil {
		versioned.VersionedObject = admission.NewLazyObject(body(object))
	}
	if old != nil {
		versioned.VersionedOldObject = admission.NewLazyObject(body(old))
	}
	return versioned
}

// admission asks the policies. Without an object, a policy that matches decides only if it looks at none.
func (e *Enforced) admission(ctx context.Context, request *admission.VersionedAttributes, reason string, blind bool) (Answer, error) {
	var open Answer
	for _, g := range e.guards {
		if !g.constrains(request) {
			continue
		}
		if blind && g.looksAtObject() {
			if match := g.matcher.Match(ctx, request, nil, e.rbac); match.Matches || match.Error != nil {
				open.Decision, open.By = "Conditional", append(open.By, e.originOf(g))
				open.Messages = append(open.Messages, g.message())
			}
			continue
		}
		result := g.validator.Validate(ctx, request.GetResource(), request, nil, nil, celconfig.RuntimeCELCostBudget, e.rbac)
		for _, d := range result.Decisions {
			if d.Action == validating.ActionDeny {
				return Answer{Decision: "Deny", Reason: d.Message, By: []string{e.originOf(g)}}, nil
			}
		}
	}
	if open.Decision != "" {
		open.Reason = "it depends on the object: " + strings.Join(open.By, ", ")
		return open, nil
	}
	return Answer{Decision: "Allow", Reason: reason, By: e.allowedBy(reason)}, nil
}

func (e *Enforced) originOf(g *guard) string {
	return e.origins["ValidatingAdmissionPolicy /"+g.policy.Name]
}

// constrains reports whether a policy is about the resource and the operation.
func (g *guard) constrains(request admission.Attributes) bool {
	if g.policy.Spec.MatchConstraints == nil {
		return false
	}
	return slices.ContainsFunc(g.policy.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		matcher := rules.Matcher{Rule: r.RuleWithOperations, Attr: request}
		return matcher.Matches() && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, request.GetName()))
	})
}

// message is what a policy says when it refuses.
func (g *guard) message() string {
	if n := len(g.policy.Spec.Validations); n > 0 {
		return g.policy.Spec.Validations[n-1].Message
	}
	return ""
}

// looksAtObject reports whether any part of a policy reads an object.
func (g *guard) looksAtObject() bool {
	return slices.ContainsFunc(g.policy.Spec.Variables, func(v admissionv1.Variable) bool {
		return strings.Contains(v.Expression, "object") || strings.Contains(v.Expression, "oldObject")
	})
}
