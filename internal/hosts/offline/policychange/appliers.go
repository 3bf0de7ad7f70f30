package policychange

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Applier lists who may write one object of a change.
type Applier struct {
	Object   string            `json:"object"`
	Verb     string            `json:"verb"`
	Subjects []offline.Subject `json:"subjects"`
	// Refused are the subjects that have the verb, but would grant more than they hold.
	Refused []offline.Subject `json:"refused,omitempty"`
	Why     string            `json:"why,omitempty"`
}

// Appliers finds out who may make a change, object by object, under the current policy.
func Appliers(ctx context.Context, before, after *offline.Host, there, change []manifests.Document, remove bool) (out []Applier, err error) {
	known, changed := map[string]bool{}, map[string]bool{}
	for _, d := range change {
		changed[d.Key()] = true
	}
	for _, d := range there {
		known[d.Key()] = true
		_, inside, err := without(d, changed)
		if err != nil {
			return nil, err
		}
		for _, key := range inside {
			known[key] = true
		}
	}
	for _, d := range change {
		object, resource := written(d)
		if object == nil {
			continue
		}
		w := offline.Write{Verb: "create", Resource: resource, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName(), Object: object}
		switch {
		case remove:
			w.Verb = "delete"
		case known[d.Key()]:
			w.Verb = "update"
		}
		who, err := before.Appliers(ctx, w, after)
		if err != nil {
			return nil, fmt.Errorf("%s: who may apply it: %w", d.Name, err)
		}
		one := Applier{Object: d.Key(), Verb: w.Verb, Subjects: []offline.Subject{}, Why: who.Why}
		for _, s := range who.Subjects {
			one.Subjects = append(one.Subjects, offline.SubjectOf(s))
		}
		for _, s := range who.Escalates {
			one.Refused = append(one.Refused, offline.SubjectOf(s))
		}
		out = append(out, one)
	}
	return out, nil
}

// written is a role or binding as the server would read it; nil for other kinds.
func written(d manifests.Document) (runtime.Object, string) {
	var object runtime.Object
	var resource string
	switch d.Object.GroupVersionKind().GroupKind().String() {
	case "Role.authorization.proviso.dev":
		object, resource = &authz.Role{}, "roles.authorization.proviso.dev"
	case "RoleBinding.authorization.proviso.dev":
		object, resource = &authz.RoleBinding{}, "rolebindings.authorization.proviso.dev"
	case "Role.rbac.authorization.k8s.io":
		object, resource = &rbacv1.Role{}, "roles.rbac.authorization.k8s.io"
	case "ClusterRole.rbac.authorization.k8s.io":
		object, resource = &rbacv1.ClusterRole{}, "clusterroles.rbac.authorization.k8s.io"
	case "RoleBinding.rbac.authorization.k8s.io":
		object, resource = &rbacv1.RoleBinding{}, "rolebindings.rbac.authorization.k8s.io"
	case "ClusterRoleBinding.rbac.authorization.k8s.io":
		object, resource = &rbacv1.ClusterRoleBinding{}, "clusterrolebindings.rbac.authorization.k8s.io"
	default:
		return nil, ""
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, object); err != nil {
		return nil, ""
	}
	policycodec.VersionedScheme().Default(object)
	return object, resource
}
