package policyreview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Reviewer answers the reviews.
type Reviewer struct {
	Store *snapshot.Store
	// Gate decides, with the whole authorizer chain.
	Gate *authorize.Gate
	// Indexed is the part of the chain that is made of rules, with system:masters in front.
	Indexed *authorize.Chain
	// Master is the master namespace.
	Master string
	// Guards list what the enforcer refuses whatever the chain says, and Evaluate evaluates their conditions; nil is
	// nothing.
	Guards   accessreview.Guards
	Evaluate authorizer.EvaluateConditionFunc
	// Fields decides by rights to single fields; nil if there are none.
	Fields FieldRights
	// Converter reads content; nil leaves it as it is, and then only the version that it has is known.
	Converter Converter
	// Comparer finds the change of an object that conditions ask for; nil finds none.
	Comparer *compare.Comparer
	// Namespaces gives the namespaceObject of conditions; nil lets them fail.
	Namespaces authorize.Namespaces
}

// Converter reads content as the server would read it in a request, defaults included, and converts it to a version.
type Converter interface {
	ConvertContent(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error)
}

// ConverterFunc is a function that does.
type ConverterFunc func(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error)

// ConvertContent implements Converter.
func (f ConverterFunc) ConvertContent(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error) {
	return f(content, to)
}

// WhoCan is exact for Policy and RBAC together (PO-14): every subject that a binding names is judged by the part of the
// chain that is made of rules. Conditions are decided as far as the subject decides them, and count only where they
// would be honoured.
func (r *Reviewer) WhoCan(ctx context.Context, namespace string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	var status authz.ResourceAccessReviewStatus
	caller, _ := request.UserFrom(ctx)
	sees := r.sightOf(ctx, caller) // by the policy of now
	ctx = requestctx.AboutOthers(ctx)
	ctx = r.at(ctx, spec.Time)
	snap := authorize.SnapshotOf(ctx, r.Store)
	if snap.Rules == nil {
		return status, errUnsynced()
	}
	attrs, problem := question(snap.Served, &user.DefaultInfo{}, namespace, spec.Verb, spec.ResourceKind, spec.ResourceName)
	if problem != "" {
		status.EvaluationError = problem
		return status, nil
	}
	page, err := pageOf(namespace, spec)
	if err != nil {
		return status, err
	}
	judge, verbs := r.Gate.Over(r.Indexed), []string{attrs.Verb}
	if also := r.Gate.AlsoNeeds(attrs); also != "" {
		verbs = append(verbs, also)
	}
	attrs.Namespace = r.Gate.Chain.Scoped(attrs).GetNamespace() // power over the master namespace is asked cluster-wide
	conditional := map[ruleset.Subject][]authz.Condition{}
	var besides []authorizer.Attributes
	if authorize.HasFields(snap, attrs) {
		besides = append(besides, authorize.WithVerb(attrs, fieldperm.Verb))
	}
	halves := false
	answer := whocan.Ask(snap.Rules, whocan.Question{Request: attrs, Also: besides, Others: r.Gate.Others(snap, attrs), IncludeBlocked: spec.IncludeBlocked, Page: page, Judge: func(s ruleset.Subject) ruleset.Certainty {
		certainty := ruleset.Always
		for _, verb := range verbs {
			asked := attrs
			asked.User, asked.Verb = granted(snap.Access, s), verb
			switch v := judge.Decide(requestctx.With(ctx, snap), asked); {
			case v.Answer == authorize.Allowed:
			case v.Answer == authorize.Open && v.Pass.IsGranular():
				certainty, conditional[s] = ruleset.Sometimes, appendNew(conditional[s], []authz.Condition{singleFields()})
			case v.DependsOnObject():
				d := r.Indexed.ConditionsAwareAuthorize(ctx, asked)
				certainty, conditional[s] = ruleset.Sometimes, appendNew(conditional[s], sees.conditions(conditionsOf(d), rulesBehind(ctx, r.Indexed, asked)))
			default:
				if open := r.byCaller(ctx, asked); len(open) > 0 {
					certainty, conditional[s] = ruleset.Sometimes, appendNew(conditional[s], sees.conditions(open, rulesBehind(ctx, r.Indexed, asked)))
					continue
				}
				halves = halves || len(verbs) > 1 && v.Answer == authorize.Unanswered
				return ruleset.Never
			}
		}
		return certainty
	}})
	status.UserNames, status.GroupNames = answer.Users, answer.Groups
	for _, c := range answer.Conditional {
		entry := authz.ConditionalSubject{Conditions: conditional[c.Subject]}
		entry.UserName, entry.GroupName = names(c.Subject)
		if !slices.ContainsFunc(entry.Conditions, func(c authz.Condition) bool { return c.Description == unseen }) {
			asked := attrs
			asked.User = userOf(c.Subject)
			entry.NarrowedTo = r.Gate.Narrowed(ctx, snap, asked)
		}
		status.Conditional = append(status.Conditional, entry)
	}
	status.BlockedBy = blockedBy(ctx, answer.Blocked, attrs, sees)
	if answer.Err != nil {
		status.EvaluationError = answer.Err.Error()
	}
	if spec.IncludeRules {
		status.Rules = r.rulesOf(ctx, status, attrs, verbs, sees)
	}
	if answer.Last != nil {
		status.Continue, status.RemainingAtMost = token{question: hash(namespace, spec), Last: *answer.Last}.String(), int64(answer.Left)
	}
	if status.Incomplete, status.IncompleteReason = r.incomplete(); halves && !status.Incomplete {
		status.Incomplete = true
		status.IncompleteReason = fmt.Sprintf("%s requires %s as well: members of several groups may have one through one group and the other through another", attrs.Verb, strings.Join(verbs[1:], ", "))
	}
	return status, nil
}

// granted is a subject as it is judged, with the groups by which something was granted to a user.
func granted(ix *access.Index, s ruleset.Subject) user.Info {
	u := userOf(s)
	if judged, ok := u.(*expr.Unidentified); ok && !s.Group {
		judged.Groups = append(judged.Groups, ix.GroupsOf(s.Name)...)
	}
	return u
}

// blockedBy shows the deny rules. One whose condition this subject can never meet keeps nobody from anything.
func blockedBy(ctx context.Context, blocked []whocan.Blocked, attrs authorizer.AttributesRecord, sees *sight) []authz.BlockedSubject {
	var out []authz.BlockedSubject
	for _, b := range blocked {
		attrs.User = userOf(b.Subject)
		rule := authorize.Explain(ctx, b.Deny, attrs)
		if rule.Known == expr.False {
			continue
		}
		entry := authz.BlockedSubject{
			Binding: b.Deny.Binding().String(),
			Rule:    fmt.Sprintf("rule %d of %s: %s", b.Deny.RuleIndex(), b.Deny.Role(), b.Deny.Describe()),
		}
		entry.UserName, entry.GroupName = names(b.Subject)
		if rule.Known == expr.Unresolved {
			entry.Conditions = []authz.Condition{condition(rule.Condition, authz.EffectDeny)}
		}
		if !sees.of(b.Deny.Role()) {
			entry.Rule = fmt.Sprintf("rule %d of %s: %s", b.Deny.RuleIndex(), b.Deny.Role(), unseen)
			for i := range entry.Conditions {
				entry.Conditions[i] = hidden(entry.Conditions[i])
			}
		}
		out = append(out, entry)
	}
	return out
}

// incomplete names what in the chain may allow a subject that the index does not know.
func (r *Reviewer) incomplete() (bool, string) {
	var others []string
	for _, l := range r.Gate.Chain.Links() {
		if _, ok := l.Authorizer.(authorize.RuleTracer); !ok && !l.GrantsAreKnown() {
			others = append(others, l.Name)
		}
	}
	if len(others) == 0 {
		return false, ""
	}
	return true, "not asked, since they cannot list whom they allow: " + strings.Join(others, ", ")
}

// appendNew adds the conditions that are not in the list yet.
func appendNew(list, more []authz.Condition) []authz.Condition {
	for _, c := range more {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func errUnsynced() error {
	return apierrors.NewServiceUnavailable("the server has not read its policy yet")
}

func names(s ruleset.Subject) (userName, groupName string) {
	if s.Group {
		return "", s.Name
	}
	return s.Name, ""
}
