package policychange

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/snapshot"
)

// servedLines say what rules mean otherwise because other resources are served, or served otherwise: rights to what is
// not served are void, and conditions depend on the schema of what they look at.
func (l *looking) servedLines(changes []plan.Change) ([]string, error) {
	definitions, err := offline.ChangedDefinitions(l.sides[0].host, l.sides[1].host)
	if err != nil {
		return nil, err
	}
	var all grouped
	for _, d := range definitions {
		if d.Before != nil && d.After != nil {
			l.redefined(&all, d)
		}
	}
	served := [2]map[schema.GroupResource]bool{{}, {}}
	for i := range l.sides {
		for _, r := range l.sides[i].host.Resources() {
			if !strings.Contains(r.Name, "/") {
				served[i][r.GroupVersion.WithResource(r.Name).GroupResource()] = true
			}
		}
	}
	for i, tail := range []string{" is no longer served, so the rights of %s to it are void", " is served now, so the rights of %s to it count"} {
		for r := range served[i] {
			if served[1-i][r] {
				continue
			}
			if who := l.sides[i].entitled(r, l.verbs, changes); len(who) > 0 {
				all.add(r.String(), sentence{"", fmt.Sprintf(tail, several(who))})
			}
		}
	}
	return all.lines(), nil
}

// redefined says which conditions look at objects of a custom resource that is defined otherwise, and which exclusive
// fields it has.
func (l *looking) redefined(all *grouped, d offline.Changed[apiextensionsv1.CustomResourceDefinition]) {
	of := offline.DefinedResource(d.After)
	for i := range l.sides {
		s := &l.sides[i]
		for c := range s.conditional {
			if !l.about(s, c, of) {
				continue
			}
			if who := s.who(c.role, "", func(*accessv1alpha1.AccessRule) bool { return true }); len(who) > 0 {
				all.add(d.Name, sentence{"CustomResourceDefinition ", fmt.Sprintf(" changes, and %s has a condition on such objects: what %s may do may change", c, several(who))})
			}
		}
		if table := s.host.Snapshot().Fields; table != nil {
			for _, e := range table.Permissions() {
				if e.Exclusive && e.Resource == of.String() {
					all.add(d.Name, sentence{"CustomResourceDefinition ", fmt.Sprintf(" changes, and %s guards %s of it: what that includes may change", e.Source, e.Field)})
				}
			}
		}
	}
}

// entitled are those to whom rules allow something of a resource. It leaves out those of whom the plan says so already,
// and those who may do everything or are part of Kubernetes.
func (s *side) entitled(r schema.GroupResource, verbs []string, changes []plan.Change) (names []string) {
	told := map[ruleset.Subject]bool{{Group: true, Name: user.SystemPrivilegedGroup}: true}
	for _, who := range s.controllers {
		told[who] = true
	}
	for _, c := range changes {
		if c.Action.Group == r.Group && c.Action.Resource == r.Resource {
			for _, who := range c.Subjects {
				told[who] = true
			}
		}
	}
	attrs := authorizer.AttributesRecord{APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, ResourceRequest: true}
	for _, verb := range verbs {
		attrs.Verb = verb
		s.host.Snapshot().Rules.Anyone(attrs, func(who ruleset.Subject) {
			if !told[who] {
				names = append(names, offline.SubjectOf(who).String())
			}
		})
	}
	return names
}

// controllersOf are the users that Kubernetes itself binds: its own controllers.
func controllersOf(h *offline.Host) (all []ruleset.Subject, err error) {
	bindings, err := h.Files().Objects(snapshot.ClusterRoleBindings)
	for _, b := range snapshot.Of[*rbacv1.ClusterRoleBinding](bindings) {
		for _, s := range b.Subjects {
			switch {
			case b.Labels[manifests.LabelShipped] == "":
			case s.Kind == rbacv1.ServiceAccountKind && s.Namespace == metav1.NamespaceSystem:
				all = append(all, ruleset.Subject{Name: serviceaccount.MakeUsername(s.Namespace, s.Name)})
			case s.Kind == rbacv1.UserKind && strings.HasPrefix(s.Name, "system:kube-"):
				all = append(all, ruleset.Subject{Name: s.Name})
			}
		}
	}
	return all, err
}
