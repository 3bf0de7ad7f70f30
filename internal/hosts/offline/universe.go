package offline

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Universe is all that the rules of hosts tell apart, and what these hosts serve.
type Universe struct {
	Verbs, Namespaces, Names, Paths []string
	Resources                       []plan.Resource
	// Virtual are the resources that no request is for, and that authorization is asked about: those that every server
	// knows, and those that rules name.
	Virtual     []plan.Resource
	definitions map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
	// named are the resources and subresources that rules name, as group and resource/subresource.
	named map[schema.GroupResource]bool
}

// NewUniverse gathers what the policies of hosts name.
func NewUniverse(hosts ...*Host) (*Universe, error) {
	u := &Universe{Verbs: verbs.All(), definitions: map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}, named: map[schema.GroupResource]bool{}}
	for _, h := range hosts {
		for _, kind := range snapshot.Kinds() {
			objects, err := h.Files().Objects(kind)
			if err != nil {
				return nil, err
			}
			if objects == nil {
				continue
			}
			for _, obj := range objects.GetIndexer().List() {
				u.object(obj)
			}
		}
	}
	for _, list := range []*[]string{&u.Verbs, &u.Namespaces, &u.Names, &u.Paths} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for _, h := range hosts {
		u.serve(h)
	}
	for _, h := range hosts {
		u.imagine(h)
	}
	return u, nil
}

func (u *Universe) object(obj any) {
	switch o := obj.(type) {
	case *policyv1alpha1.Policy:
		u.Namespaces = append(u.Namespaces, o.Namespace)
		for _, role := range o.Roles {
			for _, rule := range role.Rules {
				u.rule(rule.Verbs, rule.ResourceNames, rule.NonResourceURLs)
				u.kinds(rule.ResourceKinds)
			}
		}
	case *policyv1alpha1.PolicyBinding:
		u.Namespaces = append(u.Namespaces, o.Namespace)
	case *rbacv1.Role:
		u.Namespaces = append(u.Namespaces, o.Namespace)
		for _, rule := range o.Rules {
			u.rule(rule.Verbs, rule.ResourceNames, rule.NonResourceURLs)
			u.resources(rule)
		}
	case *rbacv1.ClusterRole:
		for _, rule := range o.Rules {
			u.rule(rule.Verbs, rule.ResourceNames, rule.NonResourceURLs)
			u.resources(rule)
		}
	case *rbacv1.RoleBinding:
		u.Namespaces = append(u.Namespaces, o.Namespace)
	case *apiextensionsv1.CustomResourceDefinition:
		u.definitions[schema.GroupKind{Group: o.Spec.Group, Kind: o.Spec.Names.Kind}] = o
	}
}

func (u *Universe) rule(verbs, names, paths []string) {
	for _, v := range verbs {
		if v = strings.TrimPrefix(v, "-"); v != "*" && v != "proxy" {
			u.Verbs = append(u.Verbs, v)
		}
	}
	u.Names, u.Paths = append(u.Names, names...), append(u.Paths, paths...)
}

// serve adds what a host serves.
func (u *Universe) serve(h *Host) {
	for _, r := range h.Resources() {
		resource, sub, _ := strings.Cut(r.Name, "/")
		one := plan.Resource{Group: r.GroupVersion.Group, Version: r.GroupVersion.Version, Resource: resource, Subresource: sub, Namespaced: r.Namespaced, Own: r.Own}
		if u.knows(one) {
			continue
		}
		if sub == "" {
			one.Verbs = questions.Special(one.Group, one.Resource)
		}
		one.Shape = u.shape(r.Body)
		u.Resources = append(u.Resources, one)
	}
}

// shape is the shape of a kind: built in, or defined.
func (u *Universe) shape(kind schema.GroupVersionKind) *compare.Shape {
	if d := u.definitions[kind.GroupKind()]; d != nil {
		for _, v := range d.Spec.Versions {
			if v.Name == kind.Version && v.Schema != nil {
				return compare.FromSchema(v.Schema.OpenAPIV3Schema)
			}
		}
		return nil
	}
	if typ, ok := scheme.Scheme.AllKnownTypes()[kind]; ok {
		return compare.FromGo(typ)
	}
	return nil
}
