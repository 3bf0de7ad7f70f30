package policytools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/policycodec"
)

// applier says who may write one object of a change.
type applier struct {
	Object   string        `json:"object"`
	Verb     string        `json:"verb"`
	Subjects []planSubject `json:"subjects"`
	// Refused are those who have the verb, but would give away more than they have.
	Refused []planSubject `json:"refused,omitempty"`
	Why     string        `json:"why,omitempty"`
}

// appliers asks who may make a change, object by object, by the policy that there is.
func appliers(ctx context.Context, before, after *offline.Host, there, change []manifests.Document, remove bool) (out []applier, err error) {
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
		one := applier{Object: d.Key(), Verb: w.Verb, Subjects: []planSubject{}, Why: who.Why}
		for _, s := range who.Subjects {
			one.Subjects = append(one.Subjects, subjectOf(s))
		}
		for _, s := range who.Escalates {
			one.Refused = append(one.Refused, subjectOf(s))
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

// applierLines say it for people: one line for all objects that the same subjects may write.
func applierLines(all []applier) (lines []string) {
	index := map[string][]string{}
	var order []string
	for _, a := range all {
		names := func(subjects []planSubject) string {
			var list []string
			for _, s := range subjects {
				list = append(list, s.String())
			}
			if len(list) > 5 {
				list = append(list[:5], fmt.Sprintf("and %d more", len(list)-5))
			}
			return strings.Join(list, ", ")
		}
		text := "by " + cmp.Or(names(a.Subjects), "nobody")
		if len(a.Refused) > 0 {
			text += "; not by " + names(a.Refused) + ": " + a.Why
		}
		if !slices.Contains(order, text) {
			order = append(order, text)
		}
		index[text] = append(index[text], a.Verb+" "+a.Object)
	}
	for _, text := range order {
		lines = append(lines, strings.Join(index[text], ", ")+": "+text)
	}
	return lines
}
