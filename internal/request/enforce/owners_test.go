package enforce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/owners"
)

// PO-20: an owner is another one as soon as one thing about it differs. A flag that is missing is not set.
func TestSameOwner(t *testing.T) {
	of := func() metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	}
	if !sameOwner(of(), of()) || !sameOwner(metav1.OwnerReference{}, metav1.OwnerReference{Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false)}) {
		t.Error("an owner differs from itself")
	}
	for name, change := range map[string]func(*metav1.OwnerReference){
		"apiVersion":                    func(o *metav1.OwnerReference) { o.APIVersion = "v2" },
		"kind":                          func(o *metav1.OwnerReference) { o.Kind = "Node" },
		"name":                          func(o *metav1.OwnerReference) { o.Name = "q" },
		"uid":                           func(o *metav1.OwnerReference) { o.UID = "v" },
		"controller":                    func(o *metav1.OwnerReference) { o.Controller = nil },
		"controller, said":              func(o *metav1.OwnerReference) { o.Controller = ptr.To(false) },
		"blockOwnerDeletion":            func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = nil },
		"everything but the uid":        func(o *metav1.OwnerReference) { *o = metav1.OwnerReference{UID: o.UID} },
		"everything but the flags":      func(o *metav1.OwnerReference) { o.APIVersion, o.Kind, o.Name, o.UID = "v2", "Node", "q", "v" },
		"everything but the apiVersion": func(o *metav1.OwnerReference) { *o = metav1.OwnerReference{APIVersion: o.APIVersion} },
	} {
		other := of()
		change(&other)
		if sameOwner(of(), other) || sameOwner(other, of()) {
			t.Errorf("%s: taken for the same owner", name)
		}
	}
}

// PO-20: what a refusal says is what the change would do, and finalizers of a namespace hold back what is in it.
func TestWhatAnUpdateEnds(t *testing.T) {
	w := usual(t)
	now := metav1.Now()
	dying := w.put("v1", "ConfigMap", "hammer", "c", labelled)
	dying.SetDeletionTimestamp(&now)
	dying.SetFinalizers([]string{"a"})
	free := dying.DeepCopy()
	free.SetFinalizers(nil)
	wants(t, "a finalizer", w.ask(request{who: "edgar", operation: admission.Update, old: dying, new: free}), "removing its finalizers completes that; a rule denies you to delete it")
	hung := thing("v1", "ConfigMap", "hammer", "c", labelled, dying)
	wants(t, "an owner", w.ask(request{who: "edgar", operation: admission.Update, old: thing("v1", "ConfigMap", "hammer", "c", labelled), new: hung}), "changing metadata.ownerReferences has the garbage collector delete the object; a rule denies you to delete it")

	ns := w.put("v1", "Namespace", "", "hammer", nil)
	ns.SetDeletionTimestamp(&now)
	wants(t, "finalize a namespace in which a delete is denied", w.ask(request{who: "edgar", operation: admission.Update, old: ns, new: ns.DeepCopy(), sub: "finalize"}), "this would delete everything in the namespace")
	wants(t, "finalize a namespace in which none is", w.ask(request{who: "free", operation: admission.Update, old: ns, new: ns.DeepCopy(), sub: "finalize"}), "")
	alive := w.put("v1", "Namespace", "", "hammer", nil)
	below := alive.DeepCopy()
	below.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "gone", UID: "gone"}})
	wants(t, "hang a namespace in which a delete is denied below an owner", w.ask(request{who: "edgar", operation: admission.Update, old: alive, new: below}), "this would delete everything in the namespace")
	wants(t, "hang one in which none is", w.ask(request{who: "free", operation: admission.Update, old: alive, new: below}), "")
	wants(t, "leave it where it is", w.ask(request{who: "edgar", operation: admission.Update, old: below, new: below.DeepCopy()}), "")
	wants(t, "finalize one that stays", w.ask(request{who: "edgar", operation: admission.Update, old: alive, new: alive.DeepCopy(), sub: "finalize"}), "")
	other := w.put("v1", "ConfigMap", "hammer", "plain", nil)
	other.SetDeletionTimestamp(&now)
	other.SetFinalizers([]string{"a"})
	end := other.DeepCopy()
	end.SetFinalizers(nil)
	wants(t, "the end of another object", w.ask(request{who: "edgar", operation: admission.Update, old: other, new: end}), "")
	wants(t, "an update without its object", w.ask(request{who: "edgar", operation: admission.Update, old: other}), "")
	wants(t, "an update of nothing", w.ask(request{who: "edgar", operation: admission.Update, new: other}), "")
}

// PO-20: without rules, without a caller and without the system nothing is looked at.
func TestEffectsThatNobodyAsksFor(t *testing.T) {
	w := usual(t)
	w.broken = errors.New("this must not be read")
	owner := w.put("v1", "Pod", "hammer", "p", nil)
	remove := request{who: "edgar", operation: admission.Delete, old: owner}
	wants(t, "by somebody to whom deletes are denied", w.ask(remove), "rules deny you some deletes")
	remove.nobody = true
	wants(t, "by nobody", w.ask(remove), "")
	remove.nobody = false
	var off *Effects
	ctx := w.context()
	attrs := writeOf(admission.Delete, "", widget(nil), nil)
	if _, err := off.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil); err != nil {
		t.Errorf("the system is off: %v", err)
	}
	w.snap.Rules = nil
	wants(t, "no rules", w.ask(remove), "")
}

// PO-20: a collection that cannot say what it deletes is refused where a deny of delete reaches, and only there.
func TestDeletesOfNothingThatIsKnown(t *testing.T) {
	w := usual(t)
	for _, c := range []struct{ who, namespace, want string }{
		{"edgar", "hammer", "the server cannot tell what would be deleted with the object"}, {"edgar", "anvil", ""}, {"free", "hammer", ""},
	} {
		target := thing("v1", "Pod", c.namespace, "p", nil)
		wants(t, c.who+" in "+c.namespace, w.ask(request{who: c.who, operation: admission.Delete, target: target}), c.want)
		wants(t, c.who+" in "+c.namespace+", a subresource", w.ask(request{who: c.who, operation: admission.Delete, target: target, sub: "status"}), "")
	}
	owner := w.put("v1", "Pod", "hammer", "owner", nil)
	w.put("v1", "ConfigMap", "hammer", "c", labelled, owner)
	var none *metav1.DeleteOptions
	w.expect("options that are nil", true, request{who: "edgar", operation: admission.Delete, old: owner, options: none})
}

// PO-20: a deny of cluster-scoped objects looks at what a namespace owns, wherever that is, and what owns an object may
// be cluster-scoped, too.
func TestOwnersWithoutANamespace(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{
		"nora": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}}},
		"cora": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.name == "kept"`}},
	}, nil)
	// As upstream has it, the namespace of a request for a namespace is that namespace.
	home := thing("v1", "Namespace", "hammer", "hammer", nil)
	w.expect("a namespace that owns no node", false, request{who: "nora", operation: admission.Delete, old: home})
	w.put("v1", "Node", "", "n0", nil, home)
	w.expect("a namespace that owns a node", true, request{who: "nora", operation: admission.Delete, old: home})

	top := w.put("v1", "Node", "", "top", nil)
	middle := w.put("v1", "Node", "", "middle", nil, top)
	w.put("v1", "ConfigMap", "hammer", "kept", nil, middle)
	w.expect("by way of a node", true, request{who: "cora", operation: admission.Delete, old: top})
	pod := w.put("v1", "Pod", "hammer", "pod", nil)
	w.expect("a pod", false, request{who: "cora", operation: admission.Delete, old: pod})
	low := w.put("v1", "Node", "", "low", nil, pod)
	w.put("v1", "ConfigMap", "hammer", "kept", nil, low)
	w.scan("a pod, by way of a node", true, request{who: "cora", operation: admission.Delete, old: pod})
}

// PO-20: what lies elsewhere is not read, be it of another namespace, without one, or of a kind that is never deleted.
func TestNothingIsReadElsewhere(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{"mia": {everything,
		{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes", "widgets"}}, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"secrets"}, Where: `resource.metadata.name == "kept"`}}},
		map[string][]rule{"mia": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}}})
	for i := range w.snap.Resources {
		if w.snap.Resources[i].Resource == "widgets" {
			w.snap.Resources[i].Deletable = false
		}
	}
	owner := w.put("v1", "Pod", "anvil", "p", nil)
	w.put("v1", "ConfigMap", "hammer", "c", nil, owner) // no owner reaches into another namespace
	w.read = map[string]bool{}
	w.scan("an owner elsewhere", false, request{who: "mia", operation: admission.Delete, old: owner})
	if len(w.read) != 1 || !w.read["secrets in anvil"] {
		t.Errorf("read %v, want the secrets of anvil", w.read)
	}
	w.broken = errors.New("etcd is away")
	w.scan("an owner elsewhere that cannot be looked at", true, request{who: "mia", operation: admission.Delete, old: owner})
}

// PO-20: a deletion of what is in no namespace has none for conditions to look at: a deny about it denies.
func TestNoNamespaceForConditions(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{"nora": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}, When: `namespaceObject.metadata.labels["env"] == "hammer"`}}}, nil)
	w.effects.Namespaces = envs
	owner := w.put("v1", "Node", "", "n0", nil)
	w.put("v1", "Node", "", "n1", nil, owner)
	w.expect("a node of a node", true, request{who: "nora", operation: admission.Delete, old: owner})
}

// PO-20: what was listed already is not asked for again, and what is too much is not read.
func TestListsAreBounded(t *testing.T) {
	w := usual(t)
	r := w.resource(thing("v1", "ConfigMap", "hammer", "c", nil))
	for _, c := range []struct {
		listed, limit int
		refused       bool
	}{{0, maxListed, false}, {1, maxListed - 1, false}, {maxListed - 1, 1, false}, {maxListed, 0, true}, {maxListed + 1, 0, true}} {
		w.lists, w.limit = 0, 0
		up := &climb{cause: &cause{Effects: w.effects}, ctx: t.Context(), listed: c.listed}
		_, err := up.fetch(r, "hammer")
		if errors.Is(err, errTooMany) != c.refused || w.limit != c.limit || (w.lists == 0) != c.refused {
			t.Errorf("after %d: %v, asked for %d", c.listed, err, w.limit)
		}
	}
	w.put("v1", "ConfigMap", "hammer", "c", nil)
	up := &climb{cause: &cause{Effects: w.effects}, ctx: t.Context()}
	for range 3 {
		if _, err := up.fetch(r, "hammer"); err != nil {
			t.Error(err)
		}
	}
	if up.listed != 3 || w.limit != maxListed-2 {
		t.Errorf("%d objects are counted, and %d more were asked for", up.listed, w.limit)
	}
}

// madeUp is an index of owners with as many objects as a test wants.
type madeUp struct {
	*effectsWorld
	owned map[types.UID][]owners.Object
	knows func() bool
}

func (m madeUp) Owned(_ context.Context, _ string, owner types.UID) ([]owners.Object, error) {
	return m.owned[owner], nil
}

func (m madeUp) Knows(schema.GroupResource) bool { return m.knows == nil || m.knows() }

// PO-20: the walk down finds each object once, never the owner itself, and ends where there are too many.
func TestDescend(t *testing.T) {
	w := usual(t)
	object := func(name string) owners.Object {
		return owners.Object{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "hammer", Name: name, UID: types.UID(name)}
	}
	many := make([]owners.Object, maxListed+1)
	for i := range many {
		many[i] = object(fmt.Sprint(i))
	}
	index := madeUp{effectsWorld: w, owned: map[types.UID][]owners.Object{
		"diamond": {object("left"), object("right")}, "left": {object("bottom")}, "right": {object("bottom"), object("diamond")},
		"just": many[:maxListed], "over": many,
	}}
	w.effects.Owners = index
	for owner, want := range map[types.UID]int{"diamond": 3, "just": maxListed, "over": -1, "nothing": 0} {
		ctx := w.context()
		attrs := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "hammer", "o", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", admission.Delete, nil, false, userOf("edgar"))
		c := &cause{Effects: w.effects, facts: New(Config{}).facts(requestctx.From(ctx), attrs, nil), holder: requestctx.From(ctx)}
		found, err := c.descend(ctx, "hammer", "ConfigMap", owner)
		if (err != nil) != (want < 0) || want >= 0 && len(found) != want {
			t.Errorf("%s: %d found, %v; want %d", owner, len(found), err, want)
		}
	}
	// A kind that was just defined is known from the first look at it on.
	for _, c := range []struct {
		broken error
		want   bool
	}{{nil, true}, {errors.New("etcd is away"), false}} {
		looked := false
		w.broken, w.listed = c.broken, func() { looked = true }
		index.knows = func() bool { return looked }
		w.effects.Owners = index
		ctx := w.context()
		if got := (&cause{Effects: w.effects, holder: requestctx.From(ctx)}).indexed(ctx); got != c.want {
			t.Errorf("looked at with %v: the index counts: %v", c.broken, got)
		}
	}
	// It does not help to look at what stays unknown.
	w.broken, index.knows = nil, func() bool { return false }
	w.effects.Owners = index
	ctx := w.context()
	if (&cause{Effects: w.effects, holder: requestctx.From(ctx)}).indexed(ctx) {
		t.Error("an index that knows nothing counts")
	}
}

// NI-4: which roles change with another one: each once, however many ways lead to it, and none without a rule for it.
func TestGatheringRoles(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{
		"paul":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"clusterroles"}, ResourceNames: []string{"plain"}}},
		"nick":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"clusterroles"}, Where: `resource.metadata.name == "plain"`}},
		"adele": {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"clusterroles"}, Where: `resource.metadata.name == "both"`}},
	}, nil)
	role := func(name, label string, by ...string) {
		o := w.put(rbacV1, "ClusterRole", "", name, clusterRole(name, label).GetLabels())
		var selectors []any
		for _, b := range by {
			selectors = append(selectors, map[string]any{"matchLabels": map[string]any{b: "true"}})
		}
		if len(by) > 0 {
			o.Object["aggregationRule"] = map[string]any{"clusterRoleSelectors": selectors}
		}
	}
	role("middle", "to-both", "new")
	role("both", "", "new", "to-both")
	role("plain", "new")
	ctx := w.context()
	attrs := admission.NewAttributesRecord(clusterRole("x", "new"), nil, schema.GroupVersionKind{}, "", "x", clusterRoles, "", admission.Create, nil, false, userOf("paul"))
	c := &cause{Effects: w.effects, facts: New(Config{}).facts(requestctx.From(ctx), attrs, nil), holder: requestctx.From(ctx)}
	found, err := c.gathering(ctx, []labels.Set{{"new": "true"}})
	names := map[string]int{}
	for _, f := range found {
		names[f.GetName()]++
	}
	if err != nil || len(found) != 2 || names["middle"] != 1 || names["both"] != 1 {
		t.Errorf("found %v, %v", names, err)
	}
	for who, refused := range map[string]bool{"paul": false, "nick": false, "adele": true} {
		for what, r := range map[string]request{
			"a role":                {who: who, operation: admission.Create, new: clusterRole("x", "new")},
			"one without a name":    {who: who, operation: admission.Create, new: clusterRole("", "new")},
			"one, in a collection":  {who: who, operation: admission.Delete, old: clusterRole("x", "new"), collection: true},
			"one by its stored set": {who: who, operation: admission.Update, old: clusterRole("x", "new"), new: clusterRole("x", "")},
		} {
			if err := w.ask(r); apierrors.IsForbidden(err) != refused {
				t.Errorf("%s by %s: %v, want refused %v", what, who, err, refused)
			}
		}
	}
}

// NI-4: only a secret is deleted for its annotations, whatever else the caller is denied to delete.
func TestAnnotationsOfOtherKinds(t *testing.T) {
	w := newEffectsWorld(t, nil, map[string][]rule{"edgar": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"secrets", "configmaps"}}}})
	for kind, refused := range map[string]bool{"Secret": true, "ConfigMap": false} {
		was, is := thing("v1", kind, "hammer", "o", nil), thing("v1", kind, "hammer", "o", nil)
		is.SetAnnotations(map[string]string{corev1.ServiceAccountNameKey: "two"})
		if err := w.ask(request{who: "edgar", operation: admission.Update, old: was, new: is}); apierrors.IsForbidden(err) != refused {
			t.Errorf("%s: %v, want refused %v", kind, err, refused)
		}
	}
}

// PO-20: an eviction shows conditions the pod that it deletes.
func TestEvictionsShowThePod(t *testing.T) {
	w := usual(t)
	w.put("v1", "Pod", "hammer", "db", labelled)
	for _, c := range []struct {
		sub     string
		effects *Effects
		shows   bool
	}{{"eviction", w.effects, true}, {"binding", w.effects, false}, {"eviction", nil, false}} {
		ctx := w.context()
		body := &unstructured.Unstructured{Object: map[string]any{}}
		attrs := admission.NewAttributesRecord(body, nil, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, "hammer", "db", pods.GroupVersionResource, c.sub, admission.Create, nil, false, userOf("edgar"))
		data := New(Config{Effects: c.effects}).facts(requestctx.From(ctx), attrs, nil).Evicted(ctx)
		var pod runtime.Object
		pod, err := data.OldObject("")
		if (err == nil) != c.shows {
			t.Errorf("%s: %v, %v", c.sub, pod, err)
			continue
		}
		if u, ok := pod.(*unstructured.Unstructured); c.shows && (!ok || !strings.Contains(fmt.Sprint(u.GetLabels()), "protected")) {
			t.Errorf("%s shows %v", c.sub, pod)
		}
	}
}
