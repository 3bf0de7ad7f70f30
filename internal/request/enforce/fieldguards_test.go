package enforce

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// everywhere is a right for the whole cluster, or none.
type everywhere bool

func (e everywhere) GrantedEverywhere(context.Context, *snapshot.Snapshot, authorizer.Attributes) bool {
	return bool(e)
}

// SV-8: while a declaration cannot be read, only a right for the whole cluster writes what it may be about.
func TestUnreadableDeclarationsWithhold(t *testing.T) {
	lost, _ := fieldperm.New(fieldperm.Config{Unreadable: []fieldperm.Unreadable{{Source: "FieldPermission lost", Resource: fieldperm.Resource{Group: "example.com", Resource: "widgets"}}}})
	protected, err := protectedattr.New(protectedattr.Config{Protections: []protectedattr.Protection{{Name: "lost"}}})
	if err == nil {
		t.Fatal("a protection that cannot be read is not reported")
	}
	for name, c := range map[string]struct {
		everywhere Everywhere
		passes     bool
	}{"nobody knows": {nil, false}, "no such right": {everywhere(false), false}, "a right everywhere": {everywhere(true), true}} {
		for _, pass := range []requestctx.Pass{requestctx.Allowed(), requestctx.Granular(nil)} {
			w, asked := withFields(t, "update", pass, fieldperm.Verb, specVerb, specVerb+" aside")
			w.snap.Fields, w.plugin.cfg.Fields.Everywhere = lost, c.everywhere
			want := ""
			if !c.passes {
				want = "FieldPermission lost cannot be read and may withhold any field"
			}
			wants(t, name, w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2"))), want)
			if !c.passes && slices.Contains(*asked, specVerb) {
				t.Errorf("%s: fields are asked about: %q", name, *asked)
			}
			w.plugin.cfg.Observer = &watcher{try: func(ctx context.Context, over Observation) {
				if got := over.TryFields(ctx, lost); got != c.passes {
					t.Errorf("%s: would be allowed %v", name, got)
				}
			}}
			_ = w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2")))
			w.plugin.cfg.Observer = Unobserved{}
			other := thing("v1", "Pod", "hammer", "p", nil)
			if !pass.IsAllowed() {
				continue
			}
			wants(t, name+", another resource", w.admit(t, admission.NewAttributesRecord(other, other, corev1.SchemeGroupVersion.WithKind("Pod"), "hammer", "p", pods.GroupVersionResource, "", admission.Update, nil, false, edgar)), "")
		}
		w := newWorld("update", requestctx.Allowed())
		w.snap.Protect = protected
		err := w.guard(t, &ProtectedAttributes{Everywhere: c.everywhere}, as(writeOf(admission.Update, "", widget(nil), tier("a")), edgar))
		if (err == nil) != c.passes {
			t.Errorf("%s: a protection that cannot be read: %v", name, err)
		}
	}
}

// FP-6: a right to single fields is asked for where no field is exclusive, too.
func TestFieldsOfAResourceWithoutExclusiveOnes(t *testing.T) {
	nothing, _ := fieldperm.New(fieldperm.Config{})
	for _, c := range []struct {
		pass requestctx.Pass
		held []string
		want string
	}{
		{requestctx.Allowed(), nil, ""}, {requestctx.Granular(nil), []string{fieldperm.Verb, specVerb}, ""}, {requestctx.Granular(nil), []string{fieldperm.Verb}, specVerb},
	} {
		w, asked := withFields(t, "update", c.pass, c.held...)
		w.snap.Fields = nothing
		// Nothing is converted or compared for a caller who holds the verb.
		if c.pass.IsAllowed() {
			w.plugin.cfg.Fields.Schemas = noSchema("this must not be asked for")
		}
		wants(t, "a write", w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2"))), c.want)
		if c.pass.IsAllowed() && (len(*asked) > 0 || audit.AuditContextFrom(w.ctx).GetEventAnnotations()[AnnotationFieldDecision] != "") {
			t.Errorf("asked %q, audited %v", *asked, audit.AuditContextFrom(w.ctx).GetEventAnnotations())
		}
	}
}

// lossy has widgets in two versions, of which v1 does not show all that v2, in which they are stored, does.
func lossy(preferred string) *snapshot.Served {
	var lists []*metav1.APIResourceList
	for _, version := range []string{preferred, map[string]string{"v1": "v2", "v2": "v1"}[preferred]} {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: "example.com/" + version, APIResources: []metav1.APIResource{
			{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "get", "list"}}, {Name: "widgets/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"}}})
	}
	return snapshot.Sources{Local: lists, Shapes: map[schema.GroupResource]snapshot.Shapes{{Group: "example.com", Resource: "widgets"}: {
		Storage: "v2", Of: map[string][sha256.Size]byte{"v1": {1}, "v2": {2}}}}}.Served()
}

// FP-10: what a write in a version drops of what is stored cannot be compared. It is refused if some field of the
// resource needs a permission, whatever part of it the request is about.
func TestWritesInAVersionThatDrops(t *testing.T) {
	nothing, _ := fieldperm.New(fieldperm.Config{})
	write := func(version, sub string) admission.Attributes {
		o := widget(nil)
		return admission.NewAttributesRecord(o, o, schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}, "hammer", "w", schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"},
			sub, admission.Update, nil, false, edgar)
	}
	for _, c := range []struct {
		version, sub string
		pass         requestctx.Pass
		guarded      bool
		refused      bool
	}{
		{"v1", "", requestctx.Allowed(), true, true}, {"v1", "status", requestctx.Allowed(), true, true}, {"v1", "scale", requestctx.Allowed(), true, true},
		{"v1", "", requestctx.Allowed(), false, false}, {"v1", "scale", requestctx.Allowed(), false, false},
		{"v1", "", requestctx.Granular(nil), true, true}, {"v1", "", requestctx.Granular(nil), false, true},
		{"v2", "", requestctx.Allowed(), true, false}, {"v2", "", requestctx.Granular(nil), true, false},
	} {
		w, _ := withFields(t, "update", c.pass, fieldperm.Verb, tierVerb)
		w.snap.Served = lossy("v2")
		if !c.guarded {
			w.snap.Fields = nothing
		}
		want := ""
		if c.refused {
			want = "could not be examined"
		}
		kinds := runtime.NewScheme()
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, &unstructured.Unstructured{})
		wants(t, c.version+"/"+c.sub, w.plugin.Validate(w.context(t), write(c.version, c.sub), admission.NewObjectInterfacesFromScheme(kinds)), want)
	}
}

// CA-11: a condition is not evaluated on a version that may not show what it is about; the subresource of another group
// is no version of the resource.
func TestConditionsOnVersionsThatDrop(t *testing.T) {
	at := func(kind schema.GroupVersionKind, version string) *facts {
		w := newWorld("update", requestctx.Allowed())
		w.snap.Served = lossy("v2")
		kinds := runtime.NewScheme()
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, &unstructured.Unstructured{})
		o := thing(kind.GroupVersion().String(), kind.Kind, "hammer", "w", nil)
		return w.plugin.facts(requestctx.From(w.context(t)), admission.NewAttributesRecord(o, o, kind, "hammer", "w", schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}, "", admission.Update, nil, false, edgar),
			admission.NewObjectInterfacesFromScheme(kinds))
	}
	for _, c := range []struct {
		kind  schema.GroupVersionKind
		named string
		fails bool
	}{
		{schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, "", false},
		{schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, "v2", false},
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "", true},
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "v2", true},
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "v1", false},
		{schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, "", false},
	} {
		_, err := at(c.kind, c.kind.Version).data.Object(c.named)
		if lost := err != nil && strings.Contains(err.Error(), "does not show all"); lost != c.fails || err != nil && !lost {
			t.Errorf("%s, seen in %q: %v", c.kind, c.named, err)
		}
	}
	// The same with a stored object that is read because of an effect.
	for preferred, fails := range map[string]bool{"v1": true, "v2": false} {
		w := usual(t)
		w.snap.Served = lossy(preferred)
		ctx := w.context()
		c := &cause{Effects: w.effects, holder: requestctx.From(ctx)}
		stored := w.put("example.com/v1", "Widget", "hammer", "w", nil)
		read := c.read(ctx, w.resource(stored), "hammer", "w")
		w.gets = 0
		_, err := read.OldObject("")
		if lost := err != nil && strings.Contains(err.Error(), "does not show all"); lost != fails || (w.gets == 0) != fails {
			t.Errorf("stored, %s is preferred: %v", preferred, err)
		}
		if _, err := read.OldObject("v1"); err != nil {
			t.Errorf("a version that the rule names is not refused: %v", err)
		}
	}
}

// FP-16: a controller that makes pods from checked templates is not asked again for what they carry; who holds single
// fields only is.
func TestCopiesAreNotAskedAgain(t *testing.T) {
	table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{{ObjectMeta: metav1.ObjectMeta{Name: "tier"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"pods"}, Field: ".spec.hostNetwork", Permission: "example.com/tier", Exclusive: true}}}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	for _, c := range []struct {
		who  string
		pass requestctx.Pass
		held []string
		want string
	}{
		{"system:serviceaccount:kube-system:replicaset-controller", requestctx.Allowed(), nil, ""},
		{"edgar", requestctx.Allowed(), nil, "hostNetwork"},
		{"system:serviceaccount:kube-system:replicaset-controller", requestctx.Granular(nil), []string{fieldperm.Verb}, "nobody may change"},
	} {
		w, _ := withFields(t, "create", c.pass, c.held...)
		w.snap.Fields = table
		pod := thing("v1", "Pod", "hammer", "p", nil)
		pod.Object["spec"] = map[string]any{"hostNetwork": true}
		err := w.admit(t, admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "hammer", "p", pods.GroupVersionResource, "", admission.Create, nil, false, &user.DefaultInfo{Name: c.who}))
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: %v", c.who, err)
		}
	}
}

// FP-9: what a request to create leaves to the server's defaults, or to an endpoint that sets it anyway, is not the
// caller's; of an update and of a subresource everything is.
func TestDefaultsOfAWrite(t *testing.T) {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{})
	kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, &unstructured.Unstructured{})
	kinds.AddTypeDefaultingFunc(&corev1.Pod{}, func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.RestartPolicy == "" {
			pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
	})
	objects := defaulting{admission.NewObjectInterfacesFromScheme(kinds)}
	at := func(attrs admission.Attributes) *fieldWrite {
		w, _ := withFields(t, "create", requestctx.Allowed())
		f := &fieldWrite{Fields: w.plugin.cfg.Fields, ctx: w.context(t), objects: objects}
		f.holder = requestctx.From(f.ctx)
		f.known = w.plugin.facts(f.holder, attrs, objects)
		return f
	}
	podAt := func(op admission.Operation, sub string) admission.Attributes {
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
		var old runtime.Object
		if op == admission.Update {
			old = pod
		}
		return admission.NewAttributesRecord(pod, old, corev1.SchemeGroupVersion.WithKind("Pod"), "hammer", "p", pods.GroupVersionResource, sub, op, nil, false, edgar)
	}
	for _, c := range []struct {
		attrs                    admission.Attributes
		managers, defaults, sets bool
	}{
		{podAt(admission.Create, ""), false, true, true}, {podAt(admission.Update, ""), true, false, false}, {podAt(admission.Create, "binding"), false, false, false},
		{writeOf(admission.Create, "", nil, widget(nil)), false, true, false}, {writeOf(admission.Update, "status", widget(nil), widget(nil)), true, false, false},
	} {
		f := at(c.attrs)
		req := f.request(fieldTarget(f.holder.Snapshot.Served, c.attrs), fieldperm.General)
		if (req.Managers != nil) != c.managers || (req.Default != nil) != c.defaults || (req.Reset != nil) != c.sets {
			t.Errorf("%s %s/%s: managers %v, defaults %v, reset %v", c.attrs.GetOperation(), c.attrs.GetResource().Resource, c.attrs.GetSubresource(), req.Managers != nil, req.Default != nil, req.Reset)
		}
		if c.managers && c.attrs.GetKind().Kind == "Pod" {
			if old, now := req.Managers(); len(old) != 1 || len(now) != 1 {
				t.Errorf("managed by %v, then by %v", old, now)
			}
		}
	}
	if managersOf(&listless{}) != nil {
		t.Error("what has no metadata is managed")
	}
	got, err := at(podAt(admission.Create, "")).defaulted(map[string]any{"metadata": map[string]any{"name": "p"}})
	if policy, _, _ := unstructured.NestedString(got, "spec", "restartPolicy"); err != nil || policy != "Always" {
		t.Errorf("a pod: %v, %v", got, err)
	}
	got, err = at(podAt(admission.Create, "")).defaulted(map[string]any{"spec": map[string]any{"restartPolicy": "Never"}})
	if policy, _, _ := unstructured.NestedString(got, "spec", "restartPolicy"); err != nil || policy != "Never" {
		t.Errorf("a pod that says it: %v, %v", got, err)
	}
	if got, err := at(podAt(admission.Create, "")).defaulted(map[string]any{"spec": "none"}); err == nil {
		t.Errorf("what is no pod: %v", got)
	}
	got, err = at(writeOf(admission.Create, "", nil, widget(nil))).defaulted(map[string]any{"spec": map[string]any{}})
	if size, _, _ := unstructured.NestedString(got, "spec", "size"); err != nil || size != "medium" || got["kind"] != "Widget" || got["apiVersion"] != "example.com/v1" {
		t.Errorf("a widget: %v, %v", got, err)
	}
	f := at(podAt(admission.Create, ""))
	f.objects = admission.NewObjectInterfacesFromScheme(runtime.NewScheme())
	if got, err := f.defaulted(map[string]any{}); err == nil {
		t.Errorf("a kind that is not known: %v", got)
	}
	f = at(writeOf(admission.Create, "", nil, nil))
	if got, err := f.defaulted(map[string]any{}); err == nil {
		t.Errorf("no object: %v", got)
	}
}

// defaulting fills in the size of widgets.
type defaulting struct{ admission.ObjectInterfaces }

func (d defaulting) GetObjectDefaulter() runtime.ObjectDefaulter { return d }

func (d defaulting) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		if u.GetKind() == "Widget" && u.GetAPIVersion() == "example.com/v1" {
			_ = unstructured.SetNestedField(u.Object, "medium", "spec", "size")
		}
		return
	}
	d.ObjectInterfaces.GetObjectDefaulter().Default(in)
}

// FP-16: both what a write changes in one version and what it changes in another needs a permission; annotations count
// as labels do, and the first that is missing ends it.
func TestWhatConversionsChange(t *testing.T) {
	table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: policyv1alpha1.FieldPermissionSpec{Resources: []string{"widgets.example.com"}, Field: ".metadata.annotations[note]", Permission: "example.com/tier", Exclusive: true}},
	}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	kinds := runtime.NewScheme()
	for _, version := range []string{"v2", "v3"} {
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}, &unstructured.Unstructured{})
	}
	noted := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetAnnotations(map[string]string{"note": "x"})
		return o
	}
	for _, c := range []struct {
		name     string
		old, new *unstructured.Unstructured
		held     []string
		versions string
		checks   int
		want     string
	}{
		{"kept by every version", sized("1"), sized("2"), nil, "v2", 0, ""},
		{"lost by a version", noted(sized("1")), noted(sized("2")), nil, "v3", 1, "note"},
		{"lost by a version, with the permission", noted(sized("1")), noted(sized("2")), []string{tierVerb}, "v3", 1, ""},
		{"lost by the first of two", noted(sized("1")), noted(sized("2")), nil, "v3 v2", 1, "note"},
		{"kept by the first of two", noted(sized("1")), noted(sized("2")), nil, "v2 v3", 1, "note"},
	} {
		w, asked := withFields(t, "update", requestctx.Allowed(), c.held...)
		w.snap.Fields = table
		w.plugin.cfg.Fields.Behind = knownBehind{versions: func(schema.GroupKind) (string, []string) { return "v1", strings.Fields(c.versions) }}
		ctx := w.context(t)
		err := w.plugin.Validate(ctx, writeOf(admission.Update, "", c.old, c.new), losing{adds{admission.NewObjectInterfacesFromScheme(kinds)}})
		wants(t, c.name, err, c.want)
		if len(*asked) != c.checks {
			t.Errorf("%s: asked %q", c.name, *asked)
		}
	}
	if _, err := labelsOf(&listless{}); err == nil {
		t.Error("what has no metadata has labels")
	}
}

// losing is a conversion to v3 that loses annotations, and one to v2 that keeps them.
type losing struct{ adds }

func (l losing) GetObjectConvertor() runtime.ObjectConvertor { return l }

func (l losing) GetObjectCreater() runtime.ObjectCreater { return l }

func (losing) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func (losing) Convert(in, out, _ any) error {
	from, ok := in.(*unstructured.Unstructured)
	to, too := out.(*unstructured.Unstructured)
	if !ok || !too {
		return errors.New("not a widget")
	}
	version := to.GetAPIVersion()
	*to = *from.DeepCopy()
	if to.SetAPIVersion(version); strings.HasSuffix(version, "v3") {
		to.SetAnnotations(nil)
	}
	return nil
}
