package evasion

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
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
var settled = map[schema.GroupResource][]string{
	{Resource: "persistentvolumeclaims"}: {".spec.storageClassName", ".spec.accessModes", ".spec.selector", ".spec.volumeMode", ".spec.dataSource"},
	{Resource: "secrets"}:                {".type"},
	pods:                                 {".spec.nodeName", ".spec.serviceAccountName", ".spec.hostNetwork", ".spec.hostPID", ".spec.hostIPC", ".spec.securityContext"},
	{Group: "storage.k8s.io", Resource: "storageclasses"}: {".provisioner", ".parameters"},
	{Group: "batch", Resource: "jobs"}:                    {".spec.template", ".spec.selector"},
}

// changes reports whether an update of the resource can change the mark.
func (m Mark) changes(r schema.GroupResource) bool {
	return m.Of != Field || !slices.ContainsFunc(settled[r], func(path string) bool { return within(m.Name, path) })
}

// within reports whether a path is another one, or leads on from it.
func within(path, from string) bool { return path == from || strings.HasPrefix(path, from+".") }

// Marks returns what a rule looks at and a subject could change to evade it. There are none if the rule does not deny,
// or if it denies only to write such objects.
func Marks(rule *policyv1alpha1.PolicyRule) []Mark {
	if !rule.Deny || rule.Enforcement != "" && rule.Enforcement != policyv1alpha1.EnforcementEnforce || !beyondWriting(rule.Verbs) {
		return nil
	}
	return marksOf(rule)
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
	for key := range contained(rule) {
		all = append(all, Mark{Label, key})
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

// keptBy reports whether one of the conditional rules that decide a write denies it because of the mark, before
// another can allow it.
func (m Mark) keptBy(rules []ruleset.Hit) bool {
	for _, h := range rules {
		if h.Effect() == ruleset.Allows {
			return false
		}
		if rule := h.PolicyRule(); rule != nil && slices.Contains(marksOf(rule), m) {
			return true
		}
	}
	return false
}

// path leads to the mark in an object.
func (m Mark) path() []string {
	if m.Of == Field {
		return strings.Split(strings.TrimPrefix(m.Name, "."), ".")
	}
	return []string{"metadata", string(m.Of) + "s", m.Name}
}

// object is one that has a value at the mark, and nothing else.
func (m Mark) object(value string) map[string]any {
	object := map[string]any{"apiVersion": "v1", "kind": "Any", "metadata": map[string]any{"name": "any"}}
	_ = unstructured.SetNestedField(object, value, m.path()...) // a path that cannot be set is not of a field that changes
	return object
}

// values are those with which a rule compares a label or an annotation; false if it depends on it in another way.
func (m Mark) values(rule *policyv1alpha1.PolicyRule) (values []string, known bool) {
	for _, source := range []string{rule.Where, rule.When} {
		some, only := expr.ComparedWith(source, m.path())
		if !only {
			return nil, false
		}
		values = append(values, some...)
	}
	for key, value := range contained(rule) {
		switch {
		case m != Mark{Label, key}:
		case value == nil:
			return nil, false
		default:
			values = append(values, *value)
		}
	}
	return values, len(values) > 0
}

// onlyContained reports whether a rule depends on nothing but that the objects have a label.
func (m Mark) onlyContained(rule *policyv1alpha1.PolicyRule) bool {
	for key, value := range contained(rule) {
		if m == (Mark{Label, key}) && value != nil {
			return false
		}
	}
	plain := policyv1alpha1.PolicyRule{Where: rule.Where, When: rule.When}
	return !slices.Contains(marksOf(&plain), m)
}

// contained visits the labels that the attributeRestrictions of a rule name, with the value if they name one.
func contained(rule *policyv1alpha1.PolicyRule) iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		if rule.AttributeRestrictions == nil {
			return
		}
		for _, label := range rule.AttributeRestrictions.LabelsContain {
			key, value, has := strings.Cut(label, "=")
			of := &value
			if !has {
				of = nil
			}
			if !yield(key, of) {
				return
			}
		}
	}
}
