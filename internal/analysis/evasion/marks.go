package evasion

import (
	"cmp"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Of says what kind of thing a mark is.
type Of string

// The kinds of marks.
const (
	Label      Of = "label"
	Annotation Of = "annotation"
	Field      Of = "field"
)

// Mark is something of an object that a deny rule looks at.
type Mark struct {
	Of Of
	// Name is the key of a label or annotation, or the path of a field: .spec.paused.
	Name string
}

func (m Mark) String() string { return string(m.Of) + " " + m.Name }

// fixed are the fields of every object that no update changes.
var fixed = []string{"name", "namespace", "uid", "creationTimestamp", "generateName", "generation", "resourceVersion", "managedFields",
	"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}

// settled are fields of single resources that no update changes.
var settled = map[string][]string{
	"persistentvolumeclaims": {".spec.storageClassName", ".spec.accessModes", ".spec.selector", ".spec.volumeMode", ".spec.dataSource"},
	"secrets":                {".type"},
	"pods":                   {".spec.nodeName", ".spec.serviceAccountName", ".spec.hostNetwork", ".spec.hostPID", ".spec.hostIPC", ".spec.securityContext"},
	"storageclasses":         {".provisioner", ".parameters"},
	"jobs":                   {".spec.template", ".spec.selector"},
}

// changes reports whether an update of the resource can change the mark.
func (m Mark) changes(resource string) bool {
	return m.Of != Field || !slices.ContainsFunc(settled[resource], func(path string) bool { return within(m.Name, path) })
}

// within reports whether a path is another one, or leads on from it.
func within(path, from string) bool { return path == from || strings.HasPrefix(path, from+".") }

// Marks returns what a rule of a role looks at and a subject could change to evade it. There are none if the rule does
// not deny, if it denies only to write such objects, or if a rule of the same role denies updates that look at the
// same.
func Marks(rules []policyv1alpha1.PolicyRule, i int) (all []Mark) {
	rule := &rules[i]
	if !rule.Deny || rule.Enforcement != "" && rule.Enforcement != policyv1alpha1.EnforcementEnforce || !beyondWriting(rule.Verbs) {
		return nil
	}
	for _, m := range marksOf(rule) {
		if !slices.ContainsFunc(rules, func(other policyv1alpha1.PolicyRule) bool { return keeps(&other, rule, m) }) {
			all = append(all, m)
		}
	}
	return all
}

// marksOf are what the conditions of a rule look at.
func marksOf(rule *policyv1alpha1.PolicyRule) (all []Mark) {
	for _, source := range []string{rule.Where, rule.When} {
		for _, path := range expr.ReadPaths(source) {
			if m := markOf(path); m != (Mark{}) {
				all = append(all, m)
			}
		}
	}
	if r := rule.AttributeRestrictions; r != nil {
		for _, label := range r.LabelsContain {
			key, _, _ := strings.Cut(label, "=")
			all = append(all, Mark{Label, key})
		}
	}
	slices.SortFunc(all, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(all)
}

// markOf is what a path leads to; none if nobody changes it, or if it is not clear which of many it is.
func markOf(path []string) Mark {
	switch {
	case path[0] == "apiVersion" || path[0] == "kind":
		return Mark{}
	case path[0] != "metadata":
		return Mark{Field, "." + strings.Join(path, ".")}
	case len(path) < 2 || slices.Contains(fixed, path[1]):
		return Mark{}
	case path[1] == "labels" || path[1] == "annotations":
		if len(path) < 3 {
			return Mark{}
		}
		return Mark{Of(strings.TrimSuffix(path[1], "s")), path[2]}
	}
	return Mark{Field, "." + strings.Join(path, ".")}
}

// beyondWriting reports whether verbs are about more than storing an object: that is when it matters what the object
// was made into before.
func beyondWriting(list []string) bool {
	return slices.ContainsFunc(list, func(v string) bool { return !verbs.Stores(v) && !verbs.IsRead(v) })
}

// keeps reports whether a deny rule protects a mark on the objects that another one is about: it denies to update them,
// and looks at the same or at nothing.
func keeps(rule, of *policyv1alpha1.PolicyRule, m Mark) bool {
	if !rule.Deny || !updates(rule.Verbs) || len(rule.ResourceNames) > 0 && !slices.Equal(rule.ResourceNames, of.ResourceNames) {
		return false
	}
	for _, kind := range of.ResourceKinds {
		whole, _, _ := strings.Cut(kind, "/")
		if !slices.Contains(rule.ResourceKinds, whole) && !slices.Contains(rule.ResourceKinds, "*") {
			return false
		}
	}
	looks := marksOf(rule)
	return len(looks) == 0 && rule.Where == "" && rule.When == "" && rule.AttributeRestrictions == nil || slices.Contains(looks, m)
}

// updates reports whether the verbs of a deny rule cover update, and so patch.
func updates(list []string) bool {
	if slices.Contains(list, "-"+verbs.Update) {
		return false
	}
	negations := !slices.ContainsFunc(list, func(v string) bool { return !strings.HasPrefix(v, "-") })
	return negations || slices.Contains(list, verbs.Update) || slices.Contains(list, "*")
}
