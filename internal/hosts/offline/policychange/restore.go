package policychange

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// WithSinks replaces audit sinks by what they are in full: what is read for plans withholds how they are reached.
func WithSinks(ctx context.Context, config *rest.Config, now []manifests.Document) ([]manifests.Document, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for i, d := range now {
		kind, is := sinkKind(d.Object)
		if !is {
			continue
		}
		object, err := client.Resource(kind.GroupVersionResource).Namespace(d.Object.GetNamespace()).Get(ctx, d.Object.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Key(), err)
		}
		now[i].Object = object
	}
	return now, nil
}

// sinkKind is the kind of an audit sink, of the cluster or of a namespace; false for all else.
func sinkKind(object *unstructured.Unstructured) (snapshot.Kind, bool) {
	for _, kind := range []snapshot.Kind{snapshot.AuditSinks, snapshot.NamespaceAuditSinks} {
		if object.GroupVersionKind().Group == kind.Group && object.GetKind() == kindOf(kind) {
			return kind, true
		}
	}
	return snapshot.Kind{}, false
}

// Step is one write or deletion.
type Step struct {
	verb   string
	object *unstructured.Unstructured
	// rank orders steps: containers (0), roles (1) and bindings (2) are written, then bindings (4), roles (5) and
	// containers (6) deleted.
	rank int
}

func (s Step) String() string { return s.verb + " " + manifests.Key(s.object) }

// Steps returns the writes that turn one policy into another, in order.
func Steps(from, to []manifests.Document) []Step {
	put, remove := difference(from, to)
	return steps(from, put, remove)
}

// steps are what is written and deleted. Roles and role bindings of Policy are written one by one: their containers are
// made empty, and changed through them only.
func steps(now, put, remove []manifests.Document) (all []Step) {
	there := map[string]*unstructured.Unstructured{}
	for _, d := range now {
		there[d.Key()] = d.Object
	}
	for _, d := range put {
		have := there[d.Key()]
		container, holds := containers[d.Object.GroupVersionKind().GroupKind().String()]
		if !holds {
			all = append(all, rewritten(d.Object, have)...)
			continue
		}
		if have == nil {
			empty := ready(d.Object, nil)
			delete(empty.Object, container.field)
			all = append(all, Step{"create", empty, 0})
		}
		all = append(all, entries(d.Object, have, container.field)...)
	}
	for _, d := range remove {
		if container, holds := containers[d.Object.GroupVersionKind().GroupKind().String()]; holds {
			all = append(all, entries(nil, d.Object, container.field)...)
			all = append(all, Step{"delete", d.Object, 6})
			continue
		}
		all = append(all, Step{"delete", d.Object, 6 - rankOf(d.Object)})
	}
	return inOrder(all)
}

// inOrder puts containers before roles before what binds them, and deletions last, except of what is then made again.
func inOrder(all []Step) []Step {
	made := map[string]bool{}
	for _, s := range all {
		if s.verb == "create" {
			made[manifests.Key(s.object)] = true
		}
	}
	for i, s := range all {
		if s.verb == "delete" && made[manifests.Key(s.object)] {
			all[i].rank = rankOf(s.object)
		}
	}
	place := func(s Step) int {
		if s.verb == "delete" {
			return 2 * s.rank
		}
		return 2*s.rank + 1
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// rewritten turns one object into another one, which may be missing. The role of a binding cannot be changed, so such a
// binding is recreated.
func rewritten(want, have *unstructured.Unstructured) []Step {
	rank := rankOf(want)
	if have == nil {
		return []Step{{"create", ready(want, nil), rank}}
	}
	if !equality.Semantic.DeepEqual(want.Object["roleRef"], have.Object["roleRef"]) {
		return []Step{{"delete", have, rank}, {"create", ready(want, nil), rank}}
	}
	return []Step{{"update", ready(want, have), rank}}
}

// entries are the steps that make what a container holds into what another one does; either may be missing.
func entries(want, have *unstructured.Unstructured, field string) (all []Step) {
	wanted, there := views(want, field), views(have, field)
	for name, object := range wanted {
		old, exists := there[name]
		if !exists || !same(old, object) {
			all = append(all, rewritten(object, old)...)
		}
	}
	for name, object := range there {
		if wanted[name] == nil {
			all = append(all, Step{"delete", object, 6 - rankOf(object)})
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(a.object.GetName(), b.object.GetName()) })
	return all
}

// views are the roles or role bindings of a container as people write them.
func views(c *unstructured.Unstructured, field string) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	if c == nil {
		return out
	}
	inside, _, _ := unstructured.NestedMap(c.Object, field) // a copy
	for name, content := range inside {
		fields, _ := content.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetAPIVersion("authorization.proviso.dev/v1alpha1")
		object.SetKind("Role")
		object.SetNamespace(c.GetNamespace())
		object.SetName(name)
		if field == "roleBindings" {
			object.SetKind("RoleBinding")
			asView(object, c)
		}
		out[name] = object
	}
	return out
}

// asView names the role of a role binding as people do: the container says of which namespace it is, unless it is a
// ClusterRole of RBAC.
func asView(object, container *unstructured.Unstructured) {
	role, _, _ := unstructured.NestedString(object.Object, "roleName")
	namespace, _, _ := unstructured.NestedString(container.Object, "policyRef", "namespace")
	if namespace == "" {
		namespace = container.GetName() // it follows from the name
	}
	spelled, _, _ := unstructured.NestedStringSlice(object.Object, "spellings")
	delete(object.Object, "spellings")
	entry := policyv1alpha1.PolicyRoleBinding{RoleName: role}
	if stored, found, _ := unstructured.NestedMap(object.Object, "roleRef"); found {
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(stored, field)
			return value
		}
		entry.RoleRef = &policyv1alpha1.PolicyRoleReference{APIGroup: text("apiGroup"), Kind: text("kind"), Name: text("name")}
	}
	ref := policycodec.RoleRefOf(&entry, namespace)
	spelt := map[string]any{"name": ref.Name}
	for field, value := range map[string]string{"apiGroup": ref.APIGroup, "kind": ref.Kind, "namespace": ref.Namespace} {
		if value != "" {
			spelt[field] = value
		}
	}
	object.Object["roleRef"] = spelt
	if !slices.Contains(spelled, policyv1alpha1.SpellingRoleName) {
		delete(object.Object, "roleName")
	}
	if slices.Contains(spelled, policyv1alpha1.SpellingGlobalRole) {
		object.Object["referencesGlobalRole"] = true
	}
}

// rankOf puts roles before what binds them, or lets users ask for them.
func rankOf(object *unstructured.Unstructured) int {
	if strings.Contains(object.GetKind(), "Binding") || object.GetKind() == kindOf(snapshot.AccessRules) {
		return 2
	}
	return 1
}

// ready is an object as it is written over another one, or again.
func ready(object, have *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetUID("")
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	delete(object.Object, "status")
	if have != nil {
		object.SetResourceVersion(have.GetResourceVersion())
	}
	return object
}

// Restore makes the steps. Nothing is overwritten or deleted that has changed since it was looked at.
func Restore(ctx context.Context, config *rest.Config, all []Step, done func(Step)) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, s := range all {
		resource, err := resourceOf(s.object)
		if err != nil {
			return err
		}
		r := client.Resource(resource).Namespace(s.object.GetNamespace())
		switch s.verb {
		case "create":
			_, err = r.Create(ctx, s.object, metav1.CreateOptions{})
		case "update":
			_, err = r.Update(ctx, s.object, metav1.UpdateOptions{})
		default:
			options := metav1.DeleteOptions{}
			if version := s.object.GetResourceVersion(); version != "" && s.rank != 6 { // a container has just lost its entries
				options.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
			}
			if err = r.Delete(ctx, s.object.GetName(), options); apierrors.IsNotFound(err) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w; what was done before stays, and the same command goes on from there", s, err)
		}
		done(s)
	}
	return nil
}

// resourceOf is where an object of policy is written.
func resourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	gvk := object.GroupVersionKind()
	if gvk.Group == "authorization.proviso.dev" {
		return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), nil
	}
	for _, kind := range snapshot.Kinds() {
		if kind.GroupVersion() == gvk.GroupVersion() && kindOf(kind) == gvk.Kind {
			return kind.GroupVersionResource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("%s is not a policy kind", gvk.Kind)
}

// kindOf is the kind that a resource's objects have.
func kindOf(kind snapshot.Kind) string {
	name := fmt.Sprintf("%T", kind.Example)
	return name[strings.LastIndex(name, ".")+1:]
}
