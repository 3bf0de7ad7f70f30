package evasion

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/engine/whocan"
)

// Input is a role, and what is known about its subjects.
type Input struct {
	// Index has the role and its bindings: their own rules grant and deny updates, too.
	Index *ruleset.Index
	// Namespace is where the role is bound.
	Namespace string
	Rules     []policyv1alpha1.PolicyRule
	Subjects  []ruleset.Subject
	// Protections are the protected attributes, and Fields the permissions for fields; nil while that system is off.
	Protections []protectedattr.Protection
	Fields      *fieldperm.Table
}

// Way is how a subject can get round a deny rule.
type Way struct {
	// Rule is its place in the role.
	Rule     int
	Mark     Mark
	Resource schema.GroupResource
	Subject  ruleset.Subject
	// Namespace is where the role is bound; empty if that is everywhere.
	Namespace string

	by  write
	all []write
}

// Limits of the checks for one role. Beyond them nothing is reported.
const (
	maxSubjects   = 50
	maxNamespaces = 50
	maxResources  = 20
	maxNames      = 50
)

// Find looks at each deny rule, and returns at most one way for each mark of it.
func Find(in Input) (all []Way) {
	for i := range in.Rules {
		rule := &in.Rules[i]
		marks := Marks(rule)
		if len(marks) == 0 {
			continue
		}
		resources := ruleset.Coverage(rule, in.Index.Kinds()).Resources
		for _, m := range marks {
			if f, found := in.find(rule, resources[:min(len(resources), maxResources)], m); found {
				f.Rule = i
				all = append(all, f)
			}
		}
	}
	return all
}

// find is the first subject that can change a mark on one of the resources.
func (in *Input) find(rule *policyv1alpha1.PolicyRule, resources []schema.GroupResource, m Mark) (Way, bool) {
	for _, r := range resources {
		if !m.changes(r) || in.protected(rule, r, m) {
			continue
		}
		all := writes(rule, r, m)
		for _, s := range in.Subjects[:min(len(in.Subjects), maxSubjects)] {
			for _, w := range all {
				if in.may(rule, w, m, s) {
					return Way{Mark: m, Resource: r, Subject: s, Namespace: in.local(), by: w, all: all}, true
				}
			}
		}
	}
	return Way{}, false
}

// local is the namespace, or empty if it is the master namespace.
func (in *Input) local() string {
	if in.Namespace == in.Index.MasterNamespace() {
		return ""
	}
	return in.Namespace
}

// may reports whether a subject can change the mark by a write where the role is bound, on an object that the rule is
// about.
func (in *Input) may(rule *policyv1alpha1.PolicyRule, w write, m Mark, s ruleset.Subject) bool {
	places := []string{in.Namespace}
	if in.local() == "" {
		places = append([]string{""}, in.Index.NamespacesOf(s)...)
	}
	for _, verb := range w.verbs {
		attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: w.Group, APIVersion: "*", Resource: w.Resource, Subresource: w.sub, ResourceRequest: true}
		names := rule.ResourceNames
		switch {
		case w.sub == "" && !verbs.HasName(verb):
			names = []string{""}
		case len(names) == 0:
			names = in.Index.NamesFor([]string{"any-other-name"}, attrs, whocan.Judged(s)...)
		}
		for _, attrs.Namespace = range places[:min(len(places), maxNamespaces)] {
			for _, attrs.Name = range names[:min(len(names), maxNames)] {
				if in.allowed(attrs, m, s) {
					return true
				}
			}
		}
	}
	return false
}

// allowed reports whether a subject may change the mark by a request: with its verb or, where no rule has an opinion on
// that, with the right to single fields.
func (in *Input) allowed(attrs authorizer.AttributesRecord, m Mark, s ruleset.Subject) bool {
	var q ruleset.Query
	decide := func(verb string) ruleset.Standing {
		attrs.Verb = verb
		q.ResetFor(in.Index, attrs, whocan.Judged(s)...)
		return q.Decide(nil)
	}
	verb := attrs.Verb
	v := decide(verb)
	denies := v.Conditions
	if v.Certainty == ruleset.Never {
		if v.Deny.Found() || !verbs.Updates(verb) {
			return false
		}
		denies = q.AppendConditional(q.AppendConditional(nil, ruleset.TierMaster, ruleset.Denies), ruleset.TierNamespace, ruleset.Denies)
	}
	if m.keptBy(denies) {
		return false
	}
	may := func(verb string) bool { return decide(verb).Certainty != ruleset.Never }
	if v.Certainty == ruleset.Never {
		return may(fieldperm.Verb) && in.covers(fieldperm.Granular, verb, attrs, m, may)
	}
	return in.covers(fieldperm.General, verb, attrs, m, may)
}

// covers reports whether permissions for fields let a write change the mark.
func (in *Input) covers(mode fieldperm.Mode, verb string, attrs authorizer.AttributesRecord, m Mark, may func(verb string) bool) bool {
	if in.Fields == nil {
		return mode == fieldperm.General
	}
	return in.Fields.Decide(fieldperm.Request{
		Target: fieldperm.Target{Resource: fieldperm.Resource{Group: attrs.APIGroup, Resource: attrs.Resource}, Subresource: attrs.Subresource},
		Mode:   mode,
		Check:  func(verb string) (bool, error) { return may(verb), nil },
		Objects: func() (old, new *typed.TypedValue, err error) {
			schemas := &fieldperm.Schemas{}
			if verb != verbs.Create {
				if old, err = schemas.ObjectToTyped(&unstructured.Unstructured{Object: m.object("old")}); err != nil {
					return nil, nil, err
				}
			}
			new, err = schemas.ObjectToTyped(&unstructured.Unstructured{Object: m.object("new")})
			return old, new, err
		},
	}).Allowed()
}

// protected reports whether a protected attribute keeps subjects who may update the resource from changing the mark. If
// it protects some values only, the rule must not depend on others.
func (in *Input) protected(rule *policyv1alpha1.PolicyRule, r schema.GroupResource, m Mark) bool {
	if m.Of == Field {
		return false
	}
	values, known := m.values(rule)
	return slices.ContainsFunc(in.Protections, func(p protectedattr.Protection) bool {
		return p.Attribute.String() == string(m.Of) && (p.Namespace == "" || p.Namespace == in.Namespace) && covers(p.Key, m.Name) && in.about(p.Resources, r) &&
			(len(p.Values) == 0 || p.Closed || known && matching.Subset(values, p.Values))
	})
}

// covers reports whether the key of a protection is, or stands for, a key.
func covers(protected, key string) bool {
	domain, every := strings.CutSuffix(protected, "*")
	return protected == key || every && domain != "" && strings.HasPrefix(key, domain)
}

// about reports whether names of resources, none meaning all, are about one.
func (in *Input) about(names []string, r schema.GroupResource) bool {
	if len(names) == 0 {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		p, err := matching.ParseKind(name)
		if err != nil {
			return false
		}
		patterns, _ := in.Index.Kinds().Expand(p, false, false)
		return slices.ContainsFunc(patterns, func(p matching.Pattern) bool { return (p.AnyRes || p.Res == r.Resource) && p.InGroup(r.Group) })
	})
}

// String describes who can evade the rule, and how.
func (f Way) String() string {
	return fmt.Sprintf("it depends on the %s, which %s can change first, by %s", f.Mark, f.Subject, f.by)
}

// Remedy says what would close it.
func (f Way) Remedy() string {
	if f.Mark.Of == Field {
		return fmt.Sprintf("a FieldPermission with exclusive: true for %s of %s would close it, and so would denying %s", f.Mark.Name, f.Resource, denying(f.all))
	}
	kind := "ProtectedAttribute in namespace " + f.Namespace
	if f.Namespace == "" {
		kind = "ClusterProtectedAttribute"
	}
	return fmt.Sprintf("a %s for the %s would close it, and so would denying %s", kind, f.Mark, denying(f.all))
}
