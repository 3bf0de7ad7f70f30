package replay

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// apart knows how two hosts differ beside the rules for a request: what guards a write, and what conditions look at. It
// is derived from the hosts, since any object of a change may matter.
type apart struct {
	before, after *offline.Host
	// guarded is true if what is guarded differs, or cannot be read: then every guarded write may flip.
	guarded bool
	// roles are those whose members may set protected attributes, and verbs the rights to single fields. Who has them
	// may differ although the same is guarded.
	roles []ruleset.RoleRef
	verbs []string
	// elements are the resources with exclusive fields of which each element needs a right of its own.
	elements map[string]bool
	// namespaces and resources are those that are not defined alike, so a condition may hold on one side only.
	namespaces map[string]bool
	resources  map[schema.GroupResource]bool
	// granted is true if what users hold beside their roles, because they asked for it, may differ.
	granted bool
}

func compared(before, after *offline.Host) (*apart, error) {
	a := &apart{before: before, after: after, elements: map[string]bool{}, namespaces: map[string]bool{}, resources: map[schema.GroupResource]bool{}}
	for _, n := range offline.ChangedNamespaces(before, after) {
		a.namespaces[n.Name] = true
	}
	definitions, err := offline.ChangedDefinitions(before, after)
	if err != nil {
		return nil, err
	}
	for _, d := range definitions {
		if d.Before != nil {
			a.resources[offline.DefinedResource(d.Before)] = true
		}
		if d.After != nil {
			a.resources[offline.DefinedResource(d.After)] = true
		}
	}
	return a, cmp.Or(a.grants(), a.guards())
}

// grants finds whether something differs that grants of access depend on.
func (a *apart) grants() error {
	rules, err := offline.ChangedObjects(a.before, a.after, snapshot.AccessRules, func(x, y *accessv1alpha1.AccessRule) bool { return reflect.DeepEqual(x.Spec, y.Spec) && x.UID == y.UID })
	if err != nil {
		return err
	}
	requests, err := offline.ChangedObjects(a.before, a.after, snapshot.AccessRequests, func(x, y *accessv1alpha1.AccessRequest) bool { return reflect.DeepEqual(x, y) })
	if err != nil {
		return err
	}
	all, err := a.after.Files().Objects(snapshot.AccessRules)
	a.granted = len(rules)+len(requests)+len(a.namespaces) > 0 || slices.ContainsFunc(snapshot.Of[*accessv1alpha1.AccessRule](all), func(r *accessv1alpha1.AccessRule) bool {
		return !reflect.DeepEqual(content(a.before, r), content(a.after, r))
	})
	return err
}

// content is what the role of an access rule consists of.
func content(h *offline.Host, r *accessv1alpha1.AccessRule) any {
	if d := h.Snapshot().Rules.Definition(snapshot.RoleOf(r.Spec.RoleRef)); d != nil {
		return []any{d.Policy, d.RBAC}
	}
	return nil
}

// guards finds what is guarded, and by which rights.
func (a *apart) guards() error {
	protections, fields := [2]map[string]offline.Protection{}, [2][]fieldperm.Entry{}
	for i, h := range []*offline.Host{a.before, a.after} {
		var err error
		if protections[i], err = h.Protections(); err != nil {
			return err
		}
		for _, p := range protections[i] {
			if !slices.Contains(a.roles, p.Role) {
				a.roles = append(a.roles, p.Role)
			}
		}
		if table := h.Snapshot().Fields; table != nil {
			fields[i] = table.Permissions()
		}
		unread, err := unreadableGuards(h)
		if err != nil {
			return err
		}
		a.guarded = a.guarded || unread
		a.verbs = append(a.verbs, fieldVerbs(h.Snapshot().Rules, fields[i])...)
		for _, e := range fields[i] {
			if e.Exclusive && strings.HasSuffix(e.Verb, ")") {
				a.elements[e.Resource] = true
			}
		}
	}
	slices.Sort(a.verbs)
	a.verbs = slices.Compact(a.verbs)
	a.guarded = a.guarded || !reflect.DeepEqual(protections[0], protections[1]) || !slices.Equal(fields[0], fields[1])
	return nil
}

// unreadableGuards reports whether something is guarded that cannot be read.
func unreadableGuards(h *offline.Host) (bool, error) {
	for _, kind := range []snapshot.Kind{snapshot.ProtectedAttributes, snapshot.ClusterProtectedAttributes, snapshot.FieldPermissions} {
		objects, err := h.Files().Objects(kind)
		if err != nil {
			return false, err
		}
		if objects == nil {
			continue
		}
		for _, obj := range objects.GetIndexer().List() {
			if o, ok := obj.(metav1.Object); !ok || o.GetAnnotations()[policyv1alpha1.AnnotationUnreadable] != "" {
				return true, nil
			}
		}
	}
	return false, nil
}

// fieldVerbs are the rights to single fields that rules name, and those that exclusive fields need. If there are any,
// one more stands for all others.
func fieldVerbs(rules *ruleset.Index, fields []fieldperm.Entry) (all []string) {
	note := func(verbs []string) {
		for _, v := range verbs {
			if v = strings.TrimPrefix(v, "-"); v == fieldperm.Verb || strings.HasPrefix(v, fieldperm.VerbPrefix) {
				all = append(all, v)
			}
		}
	}
	rules.Definitions(func(d *ruleset.Definition) {
		for i := range d.Policy {
			note(d.Policy[i].Verbs)
		}
		for i := range d.RBAC {
			note(d.RBAC[i].Verbs)
		}
	})
	for _, e := range fields {
		if e.Exclusive {
			all = append(all, e.Verb)
		}
	}
	if len(all) > 0 {
		all = append(all, fieldperm.Verb, fieldperm.VerbPrefix+"(others)")
	}
	return all
}

// guardsFor reports whether a guard, or a right to single fields, may decide a write of a user differently on the two
// sides.
func (a *apart) guardsFor(ctx context.Context, attrs authorizer.AttributesRecord) bool {
	if !authorize.Writes(attrs) {
		return false
	}
	before, after := a.before.Snapshot().Rules, a.after.Snapshot().Rules
	return a.guarded || a.resources[schema.GroupResource{Group: attrs.APIGroup, Resource: attrs.Resource}] || slices.ContainsFunc(a.roles, func(role ruleset.RoleRef) bool {
		return before.Bound(attrs.User, role, attrs.Namespace) != after.Bound(attrs.User, role, attrs.Namespace)
	}) || slices.ContainsFunc(a.verbs, func(verb string) bool {
		asked := attrs
		asked.Verb = verb
		x, y := a.before.Decide(ctx, &asked), a.after.Decide(ctx, &asked)
		return x != y || x == offline.Depends && !a.alike(asked)
	})
}

// byElement reports whether rights to single elements may decide a write: a review of it takes all of them together.
func (a *apart) byElement(attrs authorizer.AttributesRecord) bool {
	return a.elements["*"] || a.elements[schema.GroupResource{Group: attrs.APIGroup, Resource: attrs.Resource}.String()]
}

// alike reports whether conditions on a request certainly have the same result on both sides, whatever its object is.
func (a *apart) alike(attrs authorizer.AttributesRecord) bool {
	before, after, scoped := a.before.Snapshot(), a.after.Snapshot(), a.before.Scoped(attrs)
	return !a.resources[schema.GroupResource{Group: attrs.APIGroup, Resource: attrs.Resource}] && (!a.granted || before.Access.SameFor(attrs.User, after.Access)) &&
		plan.SameFor(before.Rules, after.Rules, scoped) && !(a.elsewhere(attrs) && plan.LooksAtNamespace(before.Rules, scoped))
}

// elsewhere reports whether a request is made in a namespace that differs; without one, perhaps in all of them.
func (a *apart) elsewhere(attrs authorizer.AttributesRecord) bool {
	return a.namespaces[attrs.Namespace] || attrs.Namespace == "" && verbs.Selects(attrs.Verb) && len(a.namespaces) > 0
}
