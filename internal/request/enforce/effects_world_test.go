package enforce

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/owners"
	"proviso.dev/proviso/internal/state/snapshot"
)

// effectsWorld is a policy, what is stored, and the real chain between them.
type effectsWorld struct {
	by      denial.By // of the last refusal
	t       *testing.T
	snap    *snapshot.Snapshot
	effects *Effects
	objects map[string]*unstructured.Unstructured
	lists   int
	gets    int
	// broken is what reading gives; more says that there is more than was asked for.
	broken error
	more   bool
	// limit is that of the last list, read says what was listed if it is there, and listed is told of each list.
	limit  int
	read   map[string]bool
	listed func()
	// unknown are resources of which the index of owners knows nothing.
	unknown map[string]bool
}

type rule = policyv1alpha1.PolicyRule

// newEffectsWorld gives every name in the maps a role of that name with the rules, in the master namespace or in
// hammer.
func newEffectsWorld(t *testing.T, master, hammer map[string][]rule) *effectsWorld {
	t.Helper()
	verbs := metav1.Verbs{"create", "delete", "get", "list"}
	list := func(gv string, namespaced bool, resources ...string) *metav1.APIResourceList {
		l := &metav1.APIResourceList{GroupVersion: gv}
		for i := 0; i < len(resources); i += 2 {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: resources[i], Kind: resources[i+1], Namespaced: namespaced, Verbs: verbs})
		}
		return l
	}
	lists := []*metav1.APIResourceList{
		list("v1", true, "pods", "Pod", "configmaps", "ConfigMap", "secrets", "Secret"), list("v1", false, "nodes", "Node", "namespaces", "Namespace"),
		list("authorization.proviso.dev/v1alpha1", true, "roles", "Role"), list("policy.proviso.dev/v1alpha1", true, "fieldpermissions", "FieldPermission"),
		list("apps/v1", true, "deployments", "Deployment", "replicasets", "ReplicaSet"), list("example.com/v1", true, "widgets", "Widget"),
		list("rbac.authorization.k8s.io/v1", false, "clusterroles", "ClusterRole"),
		list("v1", true, "events", "Event"),
		list("apiextensions.k8s.io/v1", false, "customresourcedefinitions", "CustomResourceDefinition"),
		list("apiregistration.k8s.io/v1", false, "apiservices", "APIService"), list("coordination.k8s.io/v1", true, "leases", "Lease"),
		list("flowcontrol.apiserver.k8s.io/v1", false, "flowschemas", "FlowSchema"), list("networking.k8s.io/v1", false, "ipaddresses", "IPAddress"),
	}
	served := snapshot.Sources{Local: lists}.Served()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	in := ruleset.Input{MasterNamespace: "master", Kinds: served.Kinds(), CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule}
	for ns, people := range map[string]map[string][]rule{"master": master, "hammer": hammer} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for who, rules := range people {
			p.Roles[who] = policyv1alpha1.PolicyRole{Rules: rules}
			b.RoleBindings[who] = policyv1alpha1.PolicyRoleBinding{RoleName: who, UserNames: []string{who}}
		}
		in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	}
	in.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}}
	in.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "clark"}, {Kind: "User", Name: "ursula"}}}}
	store := snapshot.NewStore()
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-master", Authorizer: authorize.NewPolicyMaster(store)},
		authorize.Link{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(store, nil)}, authorize.Link{Name: "rbac", Authorizer: authorize.NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: authorize.LocalFunc(func(string, string) bool { return true })})
	w := &effectsWorld{t: t, snap: &snapshot.Snapshot{Synced: true, Served: served, Resources: snapshot.NewResources(lists), Rules: ruleset.Build(in)}, objects: map[string]*unstructured.Unstructured{}}
	w.effects = &Effects{Denials: gate, Stored: w, Orphans: true}
	return w
}

// List implements Stored.
func (w *effectsWorld) List(_ context.Context, resource schema.GroupVersionResource, namespace string, limit int) ([]metav1.PartialObjectMetadata, bool, error) {
	w.lists++
	w.limit = limit
	if w.read != nil {
		w.read[resource.Resource+" in "+namespace] = true
	}
	if w.broken != nil {
		return nil, false, w.broken
	}
	if w.listed != nil {
		w.listed()
	}
	var all []metav1.PartialObjectMetadata
	for _, o := range w.objects {
		if w.resource(o).GroupVersionResource != resource || namespace != "" && o.GetNamespace() != namespace {
			continue
		}
		if len(all) == limit {
			return all, true, nil
		}
		all = append(all, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), OwnerReferences: o.GetOwnerReferences()}})
	}
	return all, false, nil
}

// Objects implements Stored.
func (w *effectsWorld) Objects(_ context.Context, resource schema.GroupVersionResource, limit int) (all []unstructured.Unstructured, more bool, _ error) {
	w.lists++
	if w.broken != nil || w.more {
		return nil, w.more, w.broken
	}
	for _, o := range w.objects {
		if w.resource(o).GroupVersionResource != resource {
			continue
		}
		if len(all) == limit {
			return all, true, nil
		}
		all = append(all, *o)
	}
	return all, false, nil
}

// Knows implements Owners.
func (w *effectsWorld) Knows(r schema.GroupResource) bool { return !w.unknown[r.Resource] }

// Owned implements Owners.
func (w *effectsWorld) Owned(_ context.Context, kind string, owner types.UID) (all []owners.Object, _ error) {
	for _, o := range w.objects {
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == owner && ref.Kind == kind {
				all = append(all, owners.Object{Resource: w.resource(o).GroupResource(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()})
			}
		}
	}
	return all, nil
}

// Get implements Stored.
func (w *effectsWorld) Get(_ context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	w.gets++
	for _, o := range w.objects {
		if w.resource(o).GroupVersionResource == resource && o.GetNamespace() == namespace && o.GetName() == name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(resource.GroupResource(), name)
}

func (w *effectsWorld) resource(o *unstructured.Unstructured) snapshot.Resource {
	w.t.Helper()
	r, ok := w.snap.Resources.Of(o.GroupVersionKind().GroupKind())
	if !ok {
		w.t.Fatalf("%s is not served", o.GroupVersionKind())
	}
	return r
}

// put stores an object, whose UID is its name, below its owners.
func (w *effectsWorld) put(apiVersion, kind, namespace, name string, labels map[string]string, below ...*unstructured.Unstructured) *unstructured.Unstructured {
	o := thing(apiVersion, kind, namespace, name, labels, below...)
	w.objects[fmt.Sprint(kind, "/", namespace, "/", name)] = o
	return o
}

func thing(apiVersion, kind, namespace, name string, labels map[string]string, below ...*unstructured.Unstructured) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(kind + "-" + name))
	o.SetLabels(labels)
	var refs []metav1.OwnerReference
	for _, owner := range below {
		refs = append(refs, metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()})
	}
	o.SetOwnerReferences(refs)
	return o
}

// request is one admission.
type request struct {
	who       string
	operation admission.Operation
	old, new  *unstructured.Unstructured
	sub       string
	options   runtime.Object
	// collection: the request names no object.
	collection bool
	// nobody leaves the caller out.
	nobody bool
	// target names the object where there is neither an old nor a new one.
	target *unstructured.Unstructured
}

// context is that of one request.
func (w *effectsWorld) context() context.Context {
	return requestctx.WithNotes(requestctx.With(context.Background(), w.snap))
}

// ask runs the check in the context of a request of its own, or in the one given.
func (w *effectsWorld) ask(r request, within ...context.Context) error {
	w.t.Helper()
	ctx := w.context()
	if len(within) > 0 {
		ctx = within[0]
	}
	h := requestctx.From(ctx)
	target := r.target
	var old, new runtime.Object
	if r.new != nil {
		new, target = r.new, r.new
	}
	if r.old != nil {
		old, target = r.old, r.old
	}
	name := target.GetName()
	if r.collection {
		name = ""
	}
	attrs := admission.NewAttributesRecord(new, old, target.GroupVersionKind(), target.GetNamespace(), name, w.resource(target).GroupVersionResource,
		r.sub, r.operation, r.options, false, userOf(r.who))
	if r.nobody {
		attrs = as(attrs, nil)
	}
	known := New(Config{}).facts(h, attrs, nil)
	var err error
	w.by, err = w.effects.check(ctx, h, known, nil)
	return err
}

func userOf(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
}

func background() runtime.Object {
	policy := metav1.DeletePropagationBackground
	return &metav1.DeleteOptions{PropagationPolicy: &policy}
}

func orphan() runtime.Object {
	policy := metav1.DeletePropagationOrphan
	return &metav1.DeleteOptions{PropagationPolicy: &policy}
}
