package evasion

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

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
	Index *ruleset.Index
	// Namespace is where the role is bound.
	Namespace string
	Rules     []policyv1alpha1.PolicyRule
	Subjects  []ruleset.Subject
	// Protections and Fields are what is protected.
	Protections []protectedattr.Protection
	Fields      []fieldperm.Entry
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
}

// Limits of the checks for one role. Beyond them nothing is reported.
const (
	maxSubjects   = 50
	maxNamespaces = 50
	maxResources  = 20
)

// Find looks at each deny rule, and returns at most one way for each mark of it.
func Find(in Input) (all []Way) {
	for i := range in.Rules {
		marks := Marks(in.Rules, i)
		if len(marks) == 0 {
			continue
		}
		resources := ruleset.Coverage(&in.Rules[i], in.Index.Kinds()).Resources
		for _, m := range marks {
			if f, found := in.find(resources[:min(len(resources), maxResources)], m); found {
				f.Rule = i
				all = append(all, f)
			}
		}
	}
	return all
}

// find is the first subject that can change a mark on one of the resources.
func (in *Input) find(resources []schema.GroupResource, m Mark) (Way, bool) {
	for _, r := range resources {
		if !m.changes(r.Resource) || in.protected(r, m) {
			continue
		}
		for _, s := range in.Subjects[:min(len(in.Subjects), maxSubjects)] {
			if in.mayUpdate(r, s) {
				return Way{Mark: m, Resource: r, Subject: s, Namespace: in.local()}, true
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

// mayUpdate reports whether a subject can update objects of the resource where the role is bound.
func (in *Input) mayUpdate(r schema.GroupResource, s ruleset.Subject) bool {
	places := []string{in.Namespace}
	if in.local() == "" {
		places = append([]string{""}, in.Index.NamespacesOf(s)...)
	}
	for _, place := range places[:min(len(places), maxNamespaces)] {
		for _, verb := range []string{verbs.Update, verbs.Patch} {
			attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, Namespace: place, ResourceRequest: true}
			var q ruleset.Query
			q.ResetFor(in.Index, attrs, whocan.Judged(s)...)
			if q.Decide(nil).Certainty != ruleset.Never {
				return true
			}
		}
	}
	return false
}

// protected reports whether something protects the mark from subjects who may update the resource.
func (in *Input) protected(r schema.GroupResource, m Mark) bool {
	if m.Of == Field {
		return slices.ContainsFunc(in.Fields, func(e fieldperm.Entry) bool {
			return e.Exclusive && (e.Resource == "*" || e.Resource == r.Resource || e.Resource == r.String()) && within(m.Name, e.Field)
		})
	}
	return slices.ContainsFunc(in.Protections, func(p protectedattr.Protection) bool {
		return p.Attribute.String() == string(m.Of) && (p.Namespace == "" || p.Namespace == in.Namespace) && covers(p.Key, m.Name) && in.about(p.Resources, r)
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
	return fmt.Sprintf("it depends on the %s, which %s can change first, by updating %s", f.Mark, f.Subject, f.Resource)
}

// Remedy says what would close it.
func (f Way) Remedy() string {
	if f.Mark.Of == Field {
		return fmt.Sprintf("a FieldPermission with exclusive: true for %s of %s would close it, and so would denying update", f.Mark.Name, f.Resource)
	}
	kind := "ProtectedAttribute in namespace " + f.Namespace
	if f.Namespace == "" {
		kind = "ClusterProtectedAttribute"
	}
	return fmt.Sprintf("a %s for the %s would close it, and so would denying update", kind, f.Mark)
}
