package rbacstorage

import (
	"unique"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// frugalStorage deduplicates the strings of objects that are read from storage and kept in the watch cache. Roles and
// bindings repeat the same few strings, and a large cluster has a million bindings.
type frugalStorage struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s frugalStorage) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil {
		config := *opts.StorageConfig
		config.Codec = frugalCodec{config.Codec}
		opts.StorageConfig = &config
	}
	return opts, err
}

type frugalCodec struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (c frugalCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if err != nil {
		return obj, kind, err
	}
	switch o := obj.(type) {
	case *rbac.Role:
		shareRules(o.Rules)
	case *rbac.ClusterRole:
		shareRules(o.Rules)
	case *rbac.RoleBinding:
		shareBinding(&o.RoleRef, o.Subjects)
	case *rbac.ClusterRoleBinding:
		shareBinding(&o.RoleRef, o.Subjects)
	}
	return obj, kind, nil
}

func shareRules(rules []rbac.PolicyRule) {
	for i := range rules {
		r := &rules[i]
		share(r.Verbs, r.APIGroups, r.Resources, r.NonResourceURLs) // names are mostly of one rule
	}
}

func shareBinding(ref *rbac.RoleRef, subjects []rbac.Subject) {
	ref.APIGroup, ref.Kind, ref.Name = word(ref.APIGroup), word(ref.Kind), word(ref.Name)
	for i := range subjects {
		s := &subjects[i]
		s.APIGroup, s.Kind, s.Namespace = word(s.APIGroup), word(s.Kind), word(s.Namespace)
	}
}

func share(lists ...[]string) {
	for _, list := range lists {
		for i := range list {
			list[i] = word(list[i])
		}
	}
}

// word is a string equal to s that others have too. Those of nearly every object are not looked up.
func word(s string) string {
	switch s {
	case "":
		return ""
	case rbac.GroupName:
		return rbac.GroupName
	case "ClusterRole":
		return "ClusterRole"
	case "Role":
		return "Role"
	case rbac.UserKind:
		return rbac.UserKind
	case rbac.GroupKind:
		return rbac.GroupKind
	case rbac.ServiceAccountKind:
		return rbac.ServiceAccountKind
	}
	return unique.Make(s).Value()
}
