package enforce

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/requestctx"
)

var (
	protectedMaps = rule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"ConfigMap"},
		AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"protected"}}, Description: "protected config maps stay"}
	everything = rule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}
	labelled   = map[string]string{"protected": "yes"}
)

func usual(t *testing.T) *effectsWorld {
	return newEffectsWorld(t, map[string][]rule{
		"ursula": {{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes", "configmaps"}, Where: `resource.metadata.name == "kept"`}},
		"byname": {{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"secrets"}, When: `request.name == "root"`}},
		"clark":  {everything},
	}, map[string][]rule{
		"edgar":  {everything, protectedMaps},
		"porter": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}},
		"named":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, ResourceNames: []string{"db"}}},
		"free":   {everything, {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}},
		"future": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"Gizmo"}}},
		"global": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}}},
		"clark":  {protectedMaps},
		"nobody": {{Verbs: []string{"update"}, ResourceKinds: []string{"*"}}},
	})
}

// expect reports whether a request is refused or not, as it should be, with the index of owners and without.
func (w *effectsWorld) expect(name string, refused bool, r request) {
	w.t.Helper()
	w.effects.Owners = w
	w.scan(name+", by the index,", refused, r)
	w.effects.Owners = nil
	w.scan(name, refused, r)
}

// scan is without the index.
func (w *effectsWorld) scan(name string, refused bool, r request) {
	w.t.Helper()
	err := w.ask(r)
	if apierrors.IsForbidden(err) != refused || err != nil && !refused {
		w.t.Errorf("%s by %s: %v, want refused %v", name, r.who, err, refused)
	}
	if err != nil && !strings.Contains(err.Error(), " den") {
		w.t.Errorf("%s by %s: the refusal does not say what is denied: %v", name, r.who, err)
	}
	// OP-7: the log names the rule, unless the server could not tell which one it would be.
	if err != nil && len(w.by.Rules) == 0 && !strings.Contains(err.Error(), "rules deny you some deletes") {
		w.t.Errorf("%s by %s: the refusal names no rule: %v", name, r.who, err)
	}
	// TR-12: what to ask next tells no names of objects that the caller may not see.
	if q := w.by.Ask; err != nil && q != nil && (q.Attributes.GetVerb() != "delete" || q.Attributes.GetName() != "") {
		w.t.Errorf("%s by %s: the question that is left: %+v", name, r.who, q)
	}
}

// PO-20: an update that changes ownerReferences is refused if the delete of the object is denied, by the stored object.
func TestOwnerReferencesAreADelete(t *testing.T) {
	w := usual(t)
	owner := w.put("v1", "ConfigMap", "hammer", "owner", nil)
	for _, c := range []struct {
		who     string
		labels  map[string]string
		refused bool
	}{
		{"edgar", labelled, true}, {"edgar", nil, false}, {"free", labelled, false},
		{"clark", labelled, false},  // a cluster-wide grant overrides the deny of a namespace
		{"nobody", labelled, false}, // he is not allowed to delete it, and nobody denies it
	} {
		free := w.put("v1", "ConfigMap", "hammer", "c", c.labels)
		hung := thing("v1", "ConfigMap", "hammer", "c", nil, owner) // what he makes of the labels is too late
		w.expect("set an owner", c.refused, request{who: c.who, operation: admission.Update, old: free, new: hung})
		w.expect("set no owner", false, request{who: c.who, operation: admission.Update, old: free, new: thing("v1", "ConfigMap", "hammer", "c", map[string]string{"a": "b"})})
		owned := thing("v1", "ConfigMap", "hammer", "c", c.labels, owner)
		w.expect("remove an owner", c.refused, request{who: c.who, operation: admission.Update, old: owned, new: free})
		w.expect("create with an owner", false, request{who: c.who, operation: admission.Create, new: owned})
		blocks := owned.DeepCopy()
		yes := true
		refs := blocks.GetOwnerReferences()
		refs[0].BlockOwnerDeletion = &yes
		blocks.SetOwnerReferences(refs)
		w.expect("block the owner's deletion", c.refused, request{who: c.who, operation: admission.Update, old: owned, new: blocks})
	}
	// What the object owns goes with it: whoever is denied to delete that cannot hang the object below an owner that is
	// gone.
	parent := w.put("v1", "ConfigMap", "hammer", "parent", nil)
	w.put("v1", "ConfigMap", "hammer", "child", labelled, parent)
	hung := parent.DeepCopy()
	hung.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}})
	w.expect("hang what owns a protected object", true, request{who: "edgar", operation: admission.Update, old: parent, new: hung})
	w.expect("hang what owns a protected object", false, request{who: "free", operation: admission.Update, old: parent, new: hung})
	kept := hung.DeepCopy()
	kept.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
	// Below an owner that is deleted in the foreground, the garbage collector deletes it in the foreground, too.
	w.expect("hang what orphans a protected object", true, request{who: "edgar", operation: admission.Update, old: parent, new: kept})
}

// PO-20: finalizers that keep a deletion from its end are part of it.
func TestFinalizersOfDeletedObjects(t *testing.T) {
	w := usual(t)
	now := metav1.Now()
	dying := func(labels map[string]string, finalizers ...string) *unstructured.Unstructured {
		o := w.put("v1", "ConfigMap", "hammer", "c", labels)
		o.SetDeletionTimestamp(&now)
		o.SetFinalizers(finalizers)
		return o
	}
	finalizers := func(o *unstructured.Unstructured, finalizers ...string) *unstructured.Unstructured {
		o = o.DeepCopy()
		o.SetFinalizers(finalizers)
		return o
	}
	for _, who := range []string{"edgar", "free"} {
		denied := who == "edgar"
		kept := dying(labelled, "a", "b")
		w.expect("remove a finalizer", denied, request{who: who, operation: admission.Update, old: kept, new: finalizers(kept, "b")})
		w.expect("leave them", false, request{who: who, operation: admission.Update, old: kept, new: finalizers(kept, "a", "b")})
		other := dying(nil, "a")
		w.expect("remove that of another object", false, request{who: who, operation: admission.Update, old: other, new: finalizers(other)})

		owner := dying(nil, "orphan", "a")
		w.put("v1", "ConfigMap", "hammer", "kid", labelled, owner)
		w.expect("remove the orphan finalizer of its owner", denied, request{who: who, operation: admission.Update, old: owner, new: finalizers(owner, "a")})
		w.expect("remove another one of its owner", false, request{who: who, operation: admission.Update, old: owner, new: finalizers(owner, "orphan")})
		alive := w.put("v1", "ConfigMap", "hammer", "alive", labelled)
		w.expect("change those of an object that stays", false, request{who: who, operation: admission.Update, old: alive, new: finalizers(alive, "x")})
	}
	ns := w.put("v1", "Namespace", "", "hammer", nil)
	ns.SetDeletionTimestamp(&now)
	nodes := newEffectsWorld(t, map[string][]rule{"ed": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"namespaces"}}}}, nil)
	nodes.expect("finalize a namespace", true, request{who: "ed", operation: admission.Update, old: ns, new: ns.DeepCopy(), sub: "finalize"})
	w.expect("finalize a namespace", false, request{who: "free", operation: admission.Update, old: ns, new: ns.DeepCopy(), sub: "finalize"})
}

// PO-20: deleting an owner is refused if that would delete what the caller is denied to delete, at any depth.
func TestOwnersTakeTheirDependents(t *testing.T) {
	w := usual(t)
	top := w.put("apps/v1", "Deployment", "hammer", "top", nil)
	middle := w.put("apps/v1", "ReplicaSet", "hammer", "middle", nil, top)
	low := w.put("v1", "Secret", "hammer", "low", nil, middle)
	w.put("v1", "ConfigMap", "hammer", "kept", labelled, low)
	w.put("v1", "ConfigMap", "hammer", "plain", nil, top)
	w.put("v1", "Pod", "hammer", "db", nil, middle)
	w.put("v1", "Pod", "anvil", "db", nil, thing("apps/v1", "ReplicaSet", "anvil", "middle", nil))
	lonely := w.put("apps/v1", "Deployment", "hammer", "lonely", nil)
	w.put("v1", "ConfigMap", "hammer", "ofLonely", nil, lonely)
	w.put("v1", "ConfigMap", "hammer", "free", labelled)
	loop := w.put("v1", "Secret", "hammer", "loop", nil)
	loop.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "loop", UID: loop.GetUID()}})
	stray := w.put("v1", "ConfigMap", "hammer", "stray", labelled)
	stray.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "gone.example.com/v1", Kind: "Gone", Name: "x", UID: "x"}, {APIVersion: "v1", Kind: "Secret", Name: "loop", UID: loop.GetUID()}})
	no := false
	yes := true
	for name, c := range map[string]struct {
		who     string
		owner   *unstructured.Unstructured
		options runtime.Object
		refused bool
	}{
		"default":                    {"edgar", top, &metav1.DeleteOptions{}, true},
		"no options":                 {"edgar", top, nil, true},
		"background":                 {"edgar", top, background(), true},
		"old spelling":               {"edgar", top, &metav1.DeleteOptions{OrphanDependents: &no}, true},
		"orphaning, old spelling":    {"edgar", top, &metav1.DeleteOptions{OrphanDependents: &yes}, false},
		"orphaning":                  {"edgar", top, orphan(), false},
		"middle":                     {"edgar", middle, background(), true},
		"low":                        {"edgar", low, background(), true},
		"its own dependents":         {"edgar", lonely, background(), false},
		"of a stray":                 {"edgar", loop, background(), true},
		"pods":                       {"porter", top, background(), true},
		"no pods":                    {"porter", lonely, background(), false},
		"a pod by name":              {"named", middle, background(), true},
		"nothing denied":             {"free", top, background(), false},
		"cluster-wide grant":         {"clark", top, background(), false},
		"deny of the master, by CEL": {"ursula", top, background(), true},
	} {
		w.expect(name, c.refused, request{who: c.who, operation: admission.Delete, old: c.owner, options: c.options})
	}
	marked := top.DeepCopy()
	marked.SetFinalizers([]string{"orphan"})
	w.expect("orphaning by its own finalizer", false, request{who: "edgar", operation: admission.Delete, old: marked, options: &metav1.DeleteOptions{}})
	w.expect("background although it has one", true, request{who: "edgar", operation: admission.Delete, old: marked, options: background()})

	// Whoever is denied nothing costs nothing.
	w.lists, w.gets = 0, 0
	w.expect("nothing denied", false, request{who: "free", operation: admission.Delete, old: top})
	if w.lists+w.gets != 0 {
		t.Errorf("%d lists and %d gets for a caller to whom no delete is denied", w.lists, w.gets)
	}
	err := w.ask(request{who: "edgar", operation: admission.Delete, old: top})
	if strings.Contains(err.Error(), "kept") || !strings.Contains(err.Error(), "configmaps") || !strings.Contains(err.Error(), "protected config maps stay") {
		t.Errorf("the refusal names the object, or does not name its kind and the rule: %v", err)
	}
}

// PO-20: what is too much to look at is refused, and a deletecollection looks once.
func TestDependentsAreBounded(t *testing.T) {
	w := usual(t)
	owner := w.put("v1", "Secret", "hammer", "owner", nil)
	other := w.put("v1", "Secret", "hammer", "other", nil)
	for i := range maxDependents {
		w.put("v1", "ConfigMap", "hammer", fmt.Sprint("c", i), nil, owner)
	}
	w.expect("just as many as are looked at", false, request{who: "edgar", operation: admission.Delete, old: owner})
	w.put("v1", "ConfigMap", "hammer", "straw", nil, owner)
	w.expect("one more", true, request{who: "edgar", operation: admission.Delete, old: owner})
	w.expect("an owner of none of them", false, request{who: "edgar", operation: admission.Delete, old: other})

	w.lists = 0
	one := w.context()
	for range 5 {
		if err := w.ask(request{who: "edgar", operation: admission.Delete, old: other}, one); err != nil {
			t.Fatal(err)
		}
	}
	if w.lists > 2 {
		t.Errorf("%d lists for one request", w.lists)
	}
	for i := range maxListed {
		w.put("v1", "ConfigMap", "hammer", fmt.Sprint("d", i), nil)
	}
	w.scan("more than can be listed", true, request{who: "edgar", operation: admission.Delete, old: other})
	w.effects.Owners = w
	w.scan("more than can be listed, by the index", false, request{who: "edgar", operation: admission.Delete, old: other})
	w.effects.Owners = nil
	w.expect("and nothing denied", false, request{who: "free", operation: admission.Delete, old: other})
	w.expect("or orphaning", false, request{who: "edgar", operation: admission.Delete, old: other, options: orphan()})
}

// PO-20: cluster-scoped owners have dependents everywhere, and definitions take their objects with them.
func TestClusterScopedOwners(t *testing.T) {
	w := usual(t)
	node := w.put("v1", "Node", "", "n1", nil)
	w.expect("a node that owns nothing", false, request{who: "edgar", operation: admission.Delete, old: node})
	w.put("v1", "ConfigMap", "hammer", "c", labelled, node)
	w.expect("a node that owns what is protected", true, request{who: "edgar", operation: admission.Delete, old: node})
	w.expect("a node that owns nothing of it", false, request{who: "porter", operation: admission.Delete, old: node})
	w.put("v1", "Node", "", "kept", nil, node)
	w.expect("a node that owns a node", true, request{who: "ursula", operation: admission.Delete, old: node})

	definition := w.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com", nil)
	widget := w.put("example.com/v1", "Widget", "hammer", "w", nil)
	widgets := newEffectsWorld(t, nil, map[string][]rule{"wim": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"Widget"}, Where: `resource.metadata.name == "kept"`}}})
	widgets.objects = w.objects
	widgets.expect("a definition", false, request{who: "wim", operation: admission.Delete, old: definition})
	w.put("example.com/v1", "Widget", "anvil", "kept", nil)
	widgets.expect("a definition whose object is denied elsewhere only", false, request{who: "wim", operation: admission.Delete, old: definition})
	w.expect("a definition whose objects own nothing", false, request{who: "edgar", operation: admission.Delete, old: definition})
	w.put("v1", "ConfigMap", "hammer", "of-widget", labelled, widget)
	w.expect("a definition whose object owns what is protected", true, request{who: "edgar", operation: admission.Delete, old: definition})
	w.put("example.com/v1", "Widget", "hammer", "kept", nil)
	widgets.expect("a definition whose object is denied", true, request{who: "wim", operation: admission.Delete, old: definition})
	widgets.expect("all definitions, by a request without a name", true, request{who: "wim", operation: admission.Delete, old: definition, collection: true})
	w.expect("with nothing denied", false, request{who: "free", operation: admission.Delete, old: definition})
}

// PO-20: a deny that holds everywhere reaches what a cluster-scoped owner has in any namespace.
func TestClusterScopedOwnersUnderADenyEverywhere(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{"mia": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"ConfigMap"}, Where: `resource.metadata.name == "kept"`}}}, nil)
	node := w.put("v1", "Node", "", "n1", nil)
	w.put("v1", "ConfigMap", "anvil", "other", nil, node)
	w.expect("a node that owns nothing of it", false, request{who: "mia", operation: admission.Delete, old: node})
	w.put("v1", "ConfigMap", "hammer", "kept", nil, node)
	w.expect("a node that owns what is kept", true, request{who: "mia", operation: admission.Delete, old: node})
}

// PO-20: what is stored and not served now is deleted with its definition, and with its owner once it is served again.
func TestDefinitionsThatAreNotServed(t *testing.T) {
	deny := func(kind string) []rule {
		return []rule{everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{kind}, Where: `resource.metadata.name == "kept"`}}
	}
	w := newEffectsWorld(t, nil, map[string][]rule{"wim": deny("Widget"), "edgar": deny("pods"), "free": {everything}})
	definition := w.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com", nil)
	strange := w.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "strange.example.com", nil)
	owner := w.put("v1", "Secret", "hammer", "owner", nil)
	ns := w.put("v1", "Namespace", "", "hammer", nil)
	expect := func(when string, wim, unknown bool) {
		t.Helper()
		for _, who := range []string{"wim", "edgar", "free"} {
			w.expect("its definition, "+when, wim && who != "free", request{who: who, operation: admission.Delete, old: definition})
			w.expect("an owner, "+when, wim && who == "wim", request{who: who, operation: admission.Delete, old: owner})
			w.expect("an owner, orphaning, "+when, false, request{who: who, operation: admission.Delete, old: owner, options: orphan()})
			w.expect("a definition that is not known, "+when, unknown && who != "free", request{who: who, operation: admission.Delete, old: strange})
		}
	}
	expect("served", false, true)
	for i := range w.snap.Resources {
		if w.snap.Resources[i].Resource == "widgets" {
			w.snap.Resources[i].Unlisted = true
		}
	}
	expect("not served", true, true) // nobody can tell what widgets own: pods, perhaps
	w.expect("the namespace, not served", true, request{who: "wim", operation: admission.Delete, old: ns})
	w.expect("the namespace, not served", false, request{who: "free", operation: admission.Delete, old: ns})
}

// PO-20: the garbage collector takes an owner for gone that is not served any more.
func TestUnservingAVersion(t *testing.T) {
	w := newEffectsWorld(t, nil, map[string][]rule{"edgar": {everything, protectedMaps}, "porter": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}}, "free": {everything}})
	w.put("v1", "ConfigMap", "hammer", "c", labelled, w.put("example.com/v1", "Widget", "hammer", "w", nil))
	definition := func(plural string, served ...bool) *apiextensions.CustomResourceDefinition {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"}}
		d.Spec.Group, d.Spec.Names.Plural = "example.com", plural
		for i, one := range served {
			d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", i+1), Served: one})
		}
		return d
	}
	both := definition("widgets", true, true)
	for name, c := range map[string]struct {
		old, new *apiextensions.CustomResourceDefinition
		// refused to edgar, who is denied to delete what a widget owns, and to porter, who is not.
		edgar, porter bool
	}{
		"all":                      {both, definition("widgets", false, false), true, false},
		"one":                      {both, definition("widgets", true, false), true, false},
		"one, by leaving it out":   {both, definition("widgets", true), true, false},
		"none":                     {both, definition("widgets", true, true, true), false, false},
		"one that was not":         {definition("widgets", true, false), definition("widgets", true), false, false},
		"serve one more":           {definition("widgets", true, false), both, false, false},
		"of what is not known yet": {definition("gadgets", true), definition("gadgets", false), true, true},
	} {
		for who, refused := range map[string]bool{"edgar": c.edgar, "porter": c.porter, "free": false} {
			attrs := admission.NewAttributesRecord(c.new, c.old, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", c.old.Name,
				definitionResource.WithVersion("v1"), "", admission.Update, nil, false, &user.DefaultInfo{Name: who})
			ctx := w.context()
			known := New(Config{}).facts(requestctx.From(ctx), attrs, nil)
			if _, err := w.effects.check(ctx, requestctx.From(ctx), known, nil); apierrors.IsForbidden(err) != refused || err != nil && !refused {
				t.Errorf("%s stops serving %s: %v, want refused %v", who, name, err, refused)
			}
		}
	}
}

// PO-20: a right to delete the collection does not reach what is denied one by one, wherever the right comes from. Who
// holds delete in the whole cluster is not denied it (PO-7).
func TestCollectionsAreDeletes(t *testing.T) {
	pods := []string{"pods"}
	collect := rule{Verbs: []string{"deletecollection"}, ResourceKinds: pods}
	stay := rule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: pods}
	some := stay
	some.When = `request.name == "db"`
	w := newEffectsWorld(t, map[string][]rule{"marta": {collect}, "mia": {collect}, "both": {collect, {Verbs: []string{"delete"}, ResourceKinds: pods}}},
		map[string][]rule{"marta": {stay}, "mia": {some}, "both": {stay}, "clark": {stay}, "only": {{Deny: true, Verbs: []string{"deletecollection"}, ResourceKinds: pods}}})
	db, web := w.put("v1", "Pod", "hammer", "db", nil), w.put("v1", "Pod", "hammer", "web", nil)
	elsewhere := w.put("v1", "Pod", "anvil", "db", nil)
	for who, want := range map[string]struct{ db, web bool }{
		"marta": {true, true}, "mia": {true, false}, "both": {}, "clark": {}, "only": {}, // which was asked before
	} {
		w.expect("a collection with db", want.db, request{who: who, operation: admission.Delete, old: db, collection: true})
		w.expect("a collection with web", want.web, request{who: who, operation: admission.Delete, old: web, collection: true})
		w.expect("one elsewhere", false, request{who: who, operation: admission.Delete, old: elsewhere, collection: true})
	}
}

// PO-20: whoever is denied some delete in a namespace cannot delete the namespace.
func TestNamespaceDeletion(t *testing.T) {
	w := usual(t)
	ns := w.put("v1", "Namespace", "", "hammer", nil)
	other := w.put("v1", "Namespace", "", "anvil", nil)
	for who, want := range map[string]struct{ hammer, anvil bool }{
		"edgar": {true, false}, "porter": {true, false}, "named": {true, false}, "ursula": {true, true},
		"future": {true, false}, // nobody knows whether there are objects of a kind that is not known
		"byname": {true, true},  // whose condition is about the name of an object, which no request for a namespace says
		"free":   {}, "clark": {}, "nobody": {},
		"global": {}, // no node is in a namespace
	} {
		w.expect("delete hammer", want.hammer, request{who: who, operation: admission.Delete, old: ns})
		w.expect("delete anvil", want.anvil, request{who: who, operation: admission.Delete, old: other})
	}
}

// PO-20: a deny of delete reaches eviction.
func TestEvictionIsADelete(t *testing.T) {
	w := newEffectsWorld(t, nil, map[string][]rule{
		"porter": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}},
		"edgar":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"protected"}}}},
		"free":   {everything},
		"quota":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}},
	})
	w.put("v1", "Pod", "hammer", "kept", labelled)
	w.put("v1", "Pod", "hammer", "plain", nil)
	w.put("v1", "ConfigMap", "hammer", "owned", nil, w.put("v1", "Pod", "hammer", "owner", nil)) // and with it what it owns
	for _, c := range []struct {
		who, pod string
		refused  bool
	}{
		{"porter", "kept", true}, {"porter", "plain", true}, {"edgar", "kept", true}, {"edgar", "plain", false}, {"free", "kept", false}, {"edgar", "missing", true},
		{"quota", "plain", false}, {"quota", "owner", true}, {"quota", "missing", false}, {"free", "owner", false},
	} {
		w.expect("evict "+c.pod, c.refused, request{who: c.who, operation: admission.Create, sub: "eviction", target: thing("v1", "Pod", "hammer", c.pod, nil)})
		w.expect("bind "+c.pod, false, request{who: c.who, operation: admission.Create, sub: "binding", target: thing("v1", "Pod", "hammer", c.pod, nil)})
	}
}
