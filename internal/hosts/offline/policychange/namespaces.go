package policychange

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// namespaceLines say what Namespaces that are new, gone or changed do beside the rules: conditions look at them, and
// access rules cover them. The policy in a namespace that goes is gone with it, which is among the rights.
func (l *looking) namespaceLines() []string {
	changes := offline.ChangedNamespaces(l.sides[0].host, l.sides[1].host)
	if len(changes) == 0 {
		return nil
	}
	var all grouped
	for i := range l.sides {
		s := &l.sides[i]
		for c, rule := range s.conditional {
			at := atNamespace(rule)
			if !at && !l.about(s, c, namespaces) {
				continue
			}
			for _, n := range changes {
				// A rule about Namespaces says nothing of one that did not exist, or does not exist any more.
				if at || n.Before != nil && n.After != nil && (rule.Names == nil || slices.Contains(rule.Names, n.Name)) {
					l.looks(&all, n, c)
				}
			}
		}
	}
	return append(all.lines(), l.coverLines(changes)...)
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// looks says of a Namespace that a rule looks at it. Those who have the rule on one side only are named, too.
func (l *looking) looks(all *grouped, n offline.Changed[corev1.Namespace], c conditional) {
	var who []string
	for i, ns := range []*corev1.Namespace{n.Before, n.After} {
		s := &l.sides[i]
		if s.conditional[c] != nil {
			who = append(who, s.who(c.role, n.Name, func(r *accessv1alpha1.AccessRule) bool { return covers(s.host, r, ns) })...)
		}
	}
	if len(who) > 0 {
		all.add(n.Name, sentence{fmt.Sprintf("%s has a condition on the Namespace: what %s may do in ", c, several(who)), " may change"})
	}
}

// covers reports whether a role can be asked for in a namespace by an access rule, and a grant of it counts.
func covers(h *offline.Host, r *accessv1alpha1.AccessRule, ns *corev1.Namespace) bool {
	return ns != nil && ns.DeletionTimestamp == nil && access.Covers(r, ns, h.Master())
}

// coverLines say which namespaces access rules cover from now on, and no longer. Rules that are new or gone are lines
// of their own.
func (l *looking) coverLines(changes []offline.Changed[corev1.Namespace]) []string {
	var all grouped
	for _, was := range l.sides[0].access {
		at := slices.IndexFunc(l.sides[1].access, func(r *accessv1alpha1.AccessRule) bool { return r.Name == was.Name })
		if at < 0 {
			continue
		}
		is := l.sides[1].access[at]
		role := access.RoleName(is.Spec.RoleRef)
		for _, n := range changes {
			before, after := covers(l.sides[0].host, was, n.Before), covers(l.sides[1].host, is, n.After)
			switch {
			case after && !before:
				all.add(n.Name, sentence{fmt.Sprintf("AccessRule %s covers ", is.Name), fmt.Sprintf(" from now on: %s may ask for %s there", askers(is), role)})
			case before && !after:
				all.add(n.Name, sentence{fmt.Sprintf("AccessRule %s no longer covers ", is.Name), fmt.Sprintf(": %s may no longer ask for %s there, and what it granted there ends", askers(was), role)})
			case before && n.Before.UID != n.After.UID:
				all.add(n.Name, sentence{fmt.Sprintf("what AccessRule %s granted in ", is.Name), " ends: that is another namespace of the same name"})
			}
		}
	}
	return all.lines()
}

// Undeletable are the objects of a change that a server does not delete.
func Undeletable(change []manifests.Document, master string) (out []Rejected) {
	for _, d := range change {
		name := d.Object.GetName()
		switch {
		case !d.IsNamespace():
		case name == master:
			out = append(out, Rejected{Message: d.Key() + ": this namespace cannot be deleted: its policy holds for the whole cluster"})
		case slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, name):
			out = append(out, Rejected{Message: d.Key() + ": this namespace cannot be deleted: Kubernetes needs it"})
		}
	}
	return out
}
