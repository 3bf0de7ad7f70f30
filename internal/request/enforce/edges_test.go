package enforce

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// NI-5: a caller who is denied something about the objects of a definition cannot take a field out of its schema.
func TestHidingAFieldFromARule(t *testing.T) {
	widgets := []string{"widgets"}
	w := newEffectsWorld(t, map[string][]rule{
		"una":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: widgets, Where: `resource.spec.keep == "yes"`}},
		"ada":  {everything, {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}},
		"free": {everything},
	}, map[string][]rule{
		"edgar": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: widgets, Where: `resource.spec.keep == "yes"`}},
		"clark": {{Deny: true, Verbs: []string{"update"}, ResourceKinds: widgets}}, // whom a grant for the whole cluster excepts
	})
	definition := func(fields ...string) *apiextensions.CustomResourceDefinition {
		spec := map[string]props{}
		for _, f := range fields {
			spec[f] = props{Type: "string"}
		}
		whole := fieldsOf(map[string]props{"spec": fieldsOf(spec)})
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
		d.Spec.Group, d.Spec.Names.Plural, d.Spec.Version = "example.com", "widgets", "v1"
		d.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &whole}}}
		return d
	}
	for name, c := range map[string]struct {
		new     *apiextensions.CustomResourceDefinition
		refused string
	}{
		"a field less": {definition("note"), "una edgar"},
		"a field more": {definition("note", "keep", "more"), ""},
		"the same":     {definition("note", "keep"), ""},
	} {
		for _, who := range []string{"una", "edgar", "ada", "free", "clark"} {
			old := definition("note", "keep")
			attrs := admission.NewAttributesRecord(c.new, old, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", old.Name,
				definitionResource.WithVersion("v1"), "", admission.Update, nil, false, &user.DefaultInfo{Name: who})
			ctx := w.context()
			by, err := w.effects.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil)
			refused := strings.Contains(c.refused, who)
			if apierrors.IsForbidden(err) != refused || refused && (!strings.Contains(err.Error(), "would be hidden from rules") || len(by.Rules) == 0 || by.Ask == nil) {
				t.Errorf("%s by %s: %v (%+v), want refused %v", name, who, err, by, refused)
			}
		}
	}
}

// PO-20: a definition that cannot be read is not compared, be it the stored one or the new one.
func TestDefinitionsThatCannotBeRead(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{
		"una": {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"widgets"}, Where: `resource.spec.keep == "yes"`}},
		"ada": {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"secrets"}}},
	}, map[string][]rule{"edgar": {everything, protectedMaps}, "free": {everything}})
	definition := w.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com", nil)
	for _, c := range []struct{ old, new runtime.Object }{{definition, definition}, {definition, &apiextensions.CustomResourceDefinition{}}, {&apiextensions.CustomResourceDefinition{}, definition}} {
		for who, refused := range map[string]bool{"edgar": true, "una": true, "ada": false, "free": false} {
			attrs := admission.NewAttributesRecord(c.new, c.old, definition.GroupVersionKind(), "", definition.GetName(), definitionResource.WithVersion("v1"), "", admission.Update, nil, false, userOf(who))
			ctx := w.context()
			_, err := w.effects.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil)
			if apierrors.IsForbidden(err) != refused || refused && !strings.Contains(err.Error(), "cannot be read") {
				t.Errorf("%T became %T, by %s: %v", c.old, c.new, who, err)
			}
		}
	}
}

// envs are namespaces whose label env is their name; bad ones cannot be read.
var envs = authorize.NamespacesFunc(func(name string) (runtime.Object, error) {
	if name == "bad" {
		return nil, errors.New("etcd is away")
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": name}}}, nil
})

// PO-20: what denies the deletion of a dependent may look at its namespace. Without one, and where it cannot be read,
// the deletion is denied.
func TestEffectsSeeTheNamespace(t *testing.T) {
	kept := func(env string) []rule {
		return []rule{everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, When: `namespaceObject.metadata.labels["env"] == "` + env + `"`}}
	}
	w := newEffectsWorld(t, map[string][]rule{"here": kept("hammer"), "there": kept("anvil")}, nil)
	owner := w.put("v1", "Pod", "hammer", "p", nil)
	w.put("v1", "ConfigMap", "hammer", "c", nil, owner)
	remove := func(who string) request {
		return request{who: who, operation: admission.Delete, old: owner, options: background()}
	}
	w.expect("in no namespace", true, remove("there"))
	w.effects.Namespaces = envs
	w.expect("in that namespace", true, remove("here"))
	w.expect("in another", false, remove("there"))
	w.effects.Namespaces = authorize.NamespacesFunc(func(string) (runtime.Object, error) { return envs("bad") })
	w.expect("in one that cannot be read", true, remove("there"))
}

// CA-5: a condition sees the namespace of the request, and only where there is one.
func TestFactsHaveTheNamespace(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inHammer, issues := cel.Compile(`namespaceObject.metadata.labels["env"] == "hammer"`, expr.Options{Kind: expr.When})
	if issues != nil {
		t.Fatal(issues)
	}
	for _, c := range []struct {
		namespaces   authorize.Namespaces
		in           string
		holds, fails bool
	}{{envs, "hammer", true, false}, {envs, "anvil", false, false}, {envs, "bad", false, true}, {envs, "", false, true}, {nil, "hammer", false, true}} {
		w := newWorld("update", requestctx.Allowed())
		w.plugin = New(Config{Namespaces: c.namespaces})
		attrs := admission.NewAttributesRecord(widget(nil), widget(nil), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, c.in, "w",
			schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "", admission.Update, nil, false, &user.DefaultInfo{Name: "edgar"})
		holds, err := inHammer.Evaluate(t.Context(), &expr.Request{}, expr.Allow, w.factsOf(t, attrs).data)
		if holds != c.holds || (err != nil) != c.fails {
			t.Errorf("a request in %q: %v, %v", c.in, holds, err)
		}
	}
}

// SV-8: a service is ours by its namespace and its name.
func TestServicesOfThatNameElsewhere(t *testing.T) {
	check := OurGroups{Service: &apiregistration.ServiceReference{Namespace: "home", Name: "proviso"}}
	for _, c := range []struct {
		service *apiregistration.ServiceReference
		want    bool
	}{
		{&apiregistration.ServiceReference{Namespace: "home", Name: "proviso"}, true},
		{&apiregistration.ServiceReference{Namespace: "away", Name: "proviso"}, false},
		{&apiregistration.ServiceReference{Namespace: "home", Name: "other"}, false},
		{nil, false},
	} {
		if check.here(c.service) != c.want || (OurGroups{}).here(c.service) != (c.service == nil) {
			t.Errorf("%v is taken for ours: %v", c.service, !c.want)
		}
	}
}

// PO-20: the index counts only where it knows everything that could be deleted; a kind that it does not know is looked
// at once, and then everything is listed.
func TestTheIndexHasToKnowEverything(t *testing.T) {
	w := usual(t)
	owner := w.put("v1", "Pod", "hammer", "p", nil)
	w.put("v1", "ConfigMap", "hammer", "c", labelled, owner)
	remove := request{who: "edgar", operation: admission.Delete, old: owner, options: background()}
	w.effects.Owners = w
	w.scan("known", true, remove)
	if w.lists != 0 {
		t.Errorf("%d lists with an index that knows everything", w.lists)
	}
	w.unknown = map[string]bool{"widgets": true}
	w.scan("unknown", true, remove)
	if w.lists < 2 {
		t.Errorf("%d lists with an index that does not know widgets: want one of widgets, and those of what is denied", w.lists)
	}
}

// NI-4: a collection has no name; each of its objects has. An event never orphans anything, whatever its options say.
func TestNamesAndOrphans(t *testing.T) {
	w := gatheringWorld(t)
	itself := w.objects["ClusterRole//view"]
	itself.SetLabels(map[string]string{"to-view": "true"})
	if err := w.ask(request{who: "vera", operation: admission.Delete, old: itself, collection: true, options: &metav1.DeleteOptions{}}); err != nil {
		t.Errorf("a role does not change with itself: %v", err)
	}
	w = usual(t)
	for _, owner := range []struct {
		version, kind string
		refused       bool
	}{{"v1", "Pod", false}, {"apps/v1", "Deployment", false}, {"example.com/v1", "Widget", false}, {"v1", "Event", true},
		{"authorization.proviso.dev/v1alpha1", "Role", true}, {"policy.proviso.dev/v1alpha1", "FieldPermission", true}} {
		of := w.put(owner.version, owner.kind, "hammer", "o", nil)
		w.put("v1", "ConfigMap", "hammer", "of-"+strings.ToLower(owner.kind), labelled, of)
		kept := of.DeepCopy()
		kept.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
		for who, denied := range map[string]bool{"edgar": owner.refused, "free": false} {
			w.expect(owner.kind, denied, request{who: who, operation: admission.Delete, old: of, options: orphan()})
			w.expect(owner.kind+" with the finalizer", denied, request{who: who, operation: admission.Delete, old: kept, options: &metav1.DeleteOptions{}})
		}
		err := w.ask(request{who: "edgar", operation: admission.Delete, old: of, options: background()})
		if advised := err != nil && strings.Contains(err.Error(), "--cascade=orphan"); err == nil || advised == owner.refused {
			t.Errorf("%s: %v, want the advice to orphan: %v", owner.kind, err, !owner.refused)
		}
	}
	// While the owner is being deleted, its finalizer keeps what it owns only if it orphans.
	now := metav1.Now()
	for kind, refused := range map[string]bool{"Pod": false, "Role": true} {
		dying := w.objects[kind+"/hammer/o"].DeepCopy()
		dying.SetDeletionTimestamp(&now)
		dying.SetFinalizers([]string{metav1.FinalizerOrphanDependents, "a"})
		is := dying.DeepCopy()
		is.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
		w.expect(kind+" that keeps the finalizer", refused, request{who: "edgar", operation: admission.Update, old: dying, new: is})
	}
	// A server that was told not to take part in garbage collection adds no finalizer.
	w.effects.Orphans = false
	w.expect("a pod, and no finalizers", true, request{who: "edgar", operation: admission.Delete, old: w.objects["Pod/hammer/o"], options: orphan()})
}

// NI-4: only storage of Kubernetes keeps dependents: that of its own groups, except events, and that of custom
// resources. A group that is missing here has its owners checked as if they never orphaned.
func TestWhatOrphans(t *testing.T) {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if r := (schema.GroupResource{Group: gvk.Group, Resource: "x"}); gvk.Version != runtime.APIVersionInternal && !honoursOrphan(r, &corev1.Pod{}) {
			t.Errorf("the group %q of Kubernetes is not known", gvk.Group)
		}
	}
	typed, custom := &corev1.Pod{}, &unstructured.Unstructured{}
	for _, c := range []struct {
		group, resource string
		object          runtime.Object
		want            bool
	}{
		{"", "pods", typed, true},
		{"", "namespaces", typed, true},
		{"", "events", typed, false},
		{"events.k8s.io", "events", typed, false},
		{"example.com", "events", custom, true},
		{"example.com", "widgets", custom, true},
		{"example.com", "widgets", typed, false},
		{"example.com", "widgets", nil, false},
		{"authorization.proviso.dev", "rolebindings", custom, false},
		{"access.proviso.dev", "accessrequests", typed, false},
		{"auditregistration.k8s.io", "auditsinks", typed, false},
	} {
		if got := honoursOrphan(schema.GroupResource{Group: c.group, Resource: c.resource}, c.object); got != c.want {
			t.Errorf("%s.%s, %T: %v", c.resource, c.group, c.object, got)
		}
	}
}

// FP-3: without an opinion on the request, a right to single fields counts; a refusal is not one.
func TestGranularIsNeverARefusal(t *testing.T) {
	for decision, want := range map[authorizer.Decision]bool{authorizer.DecisionDeny: false, authorizer.DecisionNoOpinion: false, authorizer.DecisionAllow: false} {
		w := newWorld("update", conditional(requestctx.Outcome{Decision: decision}))
		ctx := w.context(t)
		granular, _, err := w.plugin.resolve(ctx, requestctx.From(ctx), requestctx.Request, w.factsOf(t, writeOf(admission.Update, "", widget(nil), widget(nil))))
		if granular != want || (err == nil) != (decision == authorizer.DecisionAllow) {
			t.Errorf("%v: granular %v, %v", decision, granular, err)
		}
	}
}

// NI-1: a refusal to delete a collection does not name the object; any other does.
func TestNamesInRefusals(t *testing.T) {
	refusal := forbidden(writeOf(admission.Delete, "", widget(nil), nil), "no")
	for verb, named := range map[string]bool{"deletecollection": false, "delete": true} {
		err := nameless(authorizer.AttributesRecord{Verb: verb}, refusal)
		var status *apierrors.StatusError
		if !errors.As(err, &status) || (status.ErrStatus.Details.Name == "w") != named || strings.Contains(err.Error(), `"w"`) != named {
			t.Errorf("%s: %v", verb, err)
		}
	}
	bare := &apierrors.StatusError{ErrStatus: metav1.Status{Message: "no"}}
	for _, err := range []error{errors.New("no"), bare} {
		if got := nameless(authorizer.AttributesRecord{Verb: "deletecollection"}, err); got != err { //nolint:errorlint // the same
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := nameless(nil, refusal); got != refusal { //nolint:errorlint // the same
		t.Errorf("%v became %v", refusal, got)
	}
}
