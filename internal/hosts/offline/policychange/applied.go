package policychange

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/source"
)

// Applied is the policy after a change: objects of the same identity are replaced, or deleted; prune deletes every
// other object of policy. A role that a dump holds in its container is the same as the role by itself. A namespace that
// is deleted takes what is in it with it.
func Applied(before, change []manifests.Document, remove, prune bool) ([]manifests.Document, error) {
	changed, there := map[string]bool{}, map[string]bool{}
	for _, d := range change {
		if changed[d.Key()] {
			return nil, fmt.Errorf("%s: %s is there twice", d.Name, d.Key())
		}
		changed[d.Key()] = true
	}
	ends := ending{}
	if remove {
		ends = endingWith(change)
	}
	var after []manifests.Document
	for _, d := range before {
		there[d.Key()] = true
		if changed[d.Key()] {
			continue
		}
		kept, gone, err := without(d, changed)
		if err != nil {
			return nil, err
		}
		for _, key := range gone {
			there[key] = true
		}
		switch {
		case ends.namespaces[d.Object.GetNamespace()]:
		case prune && isPolicy(d) && !isBootstrap(d):
		default:
			after = append(after, ends.served(kept))
		}
	}
	if !remove {
		return append(after, asStored(before, change)...), nil
	}
	for _, d := range change {
		if !there[d.Key()] {
			return nil, fmt.Errorf("%s: %s is not in the current policy, and cannot be deleted", d.Name, d.Key())
		}
	}
	return after, nil
}

// containers hold roles and role bindings: the field of each, and the kind of what is in it.
var containers = map[string]struct{ field, kind string }{
	"Policy.policy.proviso.dev":        {"roles", "Role.authorization.proviso.dev"},
	"PolicyBinding.policy.proviso.dev": {"roleBindings", "RoleBinding.authorization.proviso.dev"},
}

// without takes out of a container what is changed, and returns the keys of that.
func without(d manifests.Document, changed map[string]bool) (_ manifests.Document, gone []string, err error) {
	container, ok := containers[d.Object.GroupVersionKind().GroupKind().String()]
	if !ok {
		return d, nil, nil
	}
	inside, _, _ := unstructured.NestedMap(d.Object.Object, container.field)
	for name := range inside {
		if key := container.kind + " " + strings.TrimPrefix(d.Object.GetNamespace()+"/"+name, "/"); changed[key] {
			gone = append(gone, key)
			delete(inside, name)
		}
	}
	if len(gone) == 0 {
		return d, nil, nil
	}
	object := d.Object.DeepCopy()
	if err := unstructured.SetNestedMap(object.Object, inside, container.field); err != nil {
		return d, nil, err
	}
	return manifests.Document{Text: source.Text{Name: d.Name, Object: object}}, gone, nil
}

// isPolicy reports whether --prune deletes a kind.
func isPolicy(d manifests.Document) bool {
	switch d.Object.GroupVersionKind().Group {
	case "authorization.proviso.dev", "policy.proviso.dev", "rbac.authorization.k8s.io":
		return true
	}
	return false
}

// isBootstrap tells what Kubernetes makes by itself, and makes again.
func isBootstrap(d manifests.Document) bool {
	return d.Shipped() || d.Object.GetKind() == "FieldPermission"
}
