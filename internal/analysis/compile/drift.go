package compile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Drift lists the differences between a cluster and what was compiled. Objects are named as KIND NAMESPACE/NAME.
type Drift struct {
	// Missing are not there, Changed are not as they were compiled, and Left are of an earlier policy, or of another.
	Missing []string `json:"missing,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Left    []string `json:"left,omitempty"`
}

// Any reports whether anything differs.
func (d *Drift) Any() bool { return len(d.Missing)+len(d.Changed)+len(d.Left) > 0 }

// Name is how reports call an object.
func Name(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// Compare compares compiled objects with those of a cluster. Of the latter only those that carry the label count as
// left.
func Compare(compiled, there []*unstructured.Unstructured) *Drift {
	d, found := &Drift{}, map[string]*unstructured.Unstructured{}
	for _, o := range there {
		found[Name(o)] = o
	}
	for _, want := range compiled {
		name := Name(want)
		switch have := found[name]; {
		case have == nil:
			d.Missing = append(d.Missing, name)
		case !Same(want, have):
			d.Changed = append(d.Changed, name)
		}
		delete(found, name)
	}
	for name, o := range found {
		if o.GetLabels()[ManagedBy] == Manager {
			d.Left = append(d.Left, name)
		}
	}
	slices.Sort(d.Left)
	return d
}

// Same reports whether an object says what was compiled: everything but its metadata and status. The label counts,
// since an object is found by it.
func Same(want, have *unstructured.Unstructured) bool {
	if have.GetLabels()[ManagedBy] != Manager || have.GetDeletionTimestamp() != nil {
		return false
	}
	return reflect.DeepEqual(said(want), said(have))
}

func said(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for k, v := range o.Object {
		if k != "metadata" && k != "status" && v != nil {
			out[k] = v
		}
	}
	return out
}

// Narrowed reports whether a policy has been given a part that no compiled policy has, and that leaves out requests: a
// selector, resources that it excludes, or parameters. It does not count, whatever it still refuses. The other parts of
// a policy are judged by what they say.
func Narrowed(p *admissionv1.ValidatingAdmissionPolicy) bool {
	chooses := func(s *metav1.LabelSelector) bool { return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 }
	m := p.Spec.MatchConstraints
	return p.DeletionTimestamp != nil || p.Spec.ParamKind != nil ||
		m != nil && (chooses(m.NamespaceSelector) || chooses(m.ObjectSelector) || len(m.ExcludeResourceRules) > 0)
}

// Breakers are the subjects that can switch compiled policies off, by the RBAC of a cluster: they may change or
// delete ValidatingAdmissionPolicies or their bindings, which no admission policy can guard. Members of
// system:masters always can.
func Breakers(there []*unstructured.Unstructured) (all []string) {
	roles := map[string]bool{}
	for _, o := range there {
		if o.GetKind() == "ClusterRole" && breaks(o) {
			roles[o.GetName()] = true
		}
	}
	for _, o := range there {
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		if o.GetKind() != "ClusterRoleBinding" || !roles[name] {
			continue
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if text := subjectText(s); text != "" && text != "Group "+masters {
				all = append(all, fmt.Sprintf("%s by ClusterRoleBinding %s", text, o.GetName()))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// breaks reports whether a cluster role has the right to change or delete admission policies.
func breaks(o *unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, ok := r.(map[string]any)
		return ok && names(rule["apiGroups"], "admissionregistration.k8s.io") &&
			names(rule["resources"], "validatingadmissionpolicies", "validatingadmissionpolicybindings") &&
			names(rule["verbs"], "update", "patch", "delete", "deletecollection")
	})
}

// names reports whether a list of RBAC has any of some words.
func names(list any, words ...string) bool {
	all, _ := list.([]any)
	return slices.ContainsFunc(all, func(one any) bool {
		text, _ := one.(string)
		return text == "*" || slices.Contains(words, text)
	})
}

func subjectText(s any) string {
	subject, _ := s.(map[string]any)
	kind, _ := subject["kind"].(string)
	name, _ := subject["name"].(string)
	if namespace, _ := subject["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}
