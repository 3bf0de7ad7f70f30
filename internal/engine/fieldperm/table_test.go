package fieldperm

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// FP-15, FP-16: every place where a type that Kubernetes ships embeds the metadata of another object is one that
// carriers know, and every template they know is there. When this fails after an upgrade, a new kind carries objects:
// add it.
func TestCarriersAreComplete(t *testing.T) {
	found := map[Resource][]string{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || gvk.Version == runtime.APIVersionInternal || gvk.Group == "extensions" {
			continue // extensions has not been served since 1.22
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		r := Resource{plural.Group, plural.Resource}
		for _, place := range places(typ, reflect.TypeFor[metav1.ObjectMeta](), "", nil) {
			if place != ".metadata" && !slices.Contains(found[r], place) {
				found[r] = append(found[r], place)
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("found %d resources with templates: the search is broken", len(found))
	}
	builtin := mustTable(t)
	metadata := &permission{Declaration: Declaration{Field: metadataPath, Resources: []Resource{{}}, Exclusive: true}}
	for r, list := range found {
		var known []string
		for _, q := range builtin.carried(metadata, r, "") {
			known = append(known, q.path.String())
		}
		for _, place := range list {
			if !slices.Contains(known, place) {
				t.Errorf("%s carries metadata at %s, which is not guarded: %v", r, place, known)
			}
		}
	}
	for r, list := range carriers {
		for _, c := range list {
			if place := c.at.String() + ".metadata"; c.at != nil && !c.inside && !slices.Contains(found[r], place) {
				t.Errorf("%s has no metadata at %s", r, place)
			}
		}
	}
}

// places lists the JSON paths of a type inside of another.
func places(t, target reflect.Type, path string, inside []reflect.Type) []string {
	switch {
	case t == target:
		return []string{path}
	case slices.Contains(inside, t):
		return nil
	}
	inside = append(slices.Clone(inside), t)
	var all []string
	switch t.Kind() {
	case reflect.Pointer:
		return places(t.Elem(), target, path, inside)
	case reflect.Slice, reflect.Map:
		return places(t.Elem(), target, path+"[]", inside)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			below := path
			if name != "" {
				below += "." + name
			}
			all = append(all, places(t.Field(i).Type, target, below, inside)...)
		}
	}
	return all
}

// FP-2: shipped permissions are about fields that exist, and built-in resources with a scale field are known.
func TestShippedFieldsExist(t *testing.T) {
	deployment, _ := typeOf(t, &corev1.Pod{})
	for _, d := range shipped {
		if err := CheckPath(d.Field, deployment); err != nil {
			t.Errorf("%s: %v", d.Permission, err)
		}
	}
	for r, fields := range scaled {
		gvk := schema.GroupVersionKind{Group: r.Group, Version: "v1", Kind: map[string]string{
			"replicationcontrollers": "ReplicationController", "deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}[r.Resource]}
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		pt, _ := typeOf(t, obj)
		if err := CheckPath(fields[0], pt); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
}

func typeOf(t testing.TB, obj runtime.Object) (typed.ParseableType, *typed.TypedValue) {
	v := typedOf(t, obj)
	return typed.ParseableType{Schema: v.Schema(), TypeRef: v.TypeRef()}, v
}

// SV-8: a declaration that may withhold a field and does not say which withholds the resource, and what is made into
// it.
func TestUnreadableDeclarations(t *testing.T) {
	lost := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "lost", Annotations: map[string]string{policyv1alpha1.AnnotationUnreadable: "x"}}}
	onPods := lost.DeepCopy()
	onPods.Spec.Resources = []string{"pods"}
	for _, tc := range []struct {
		name   string
		config Config
		want   map[Resource]bool
	}{
		{"nothing of it is known", Config{FieldPermissions: fps(lost)}, map[Resource]bool{pods: true, {"apps", "deployments"}: true, {"", "secrets"}: true}},
		{"its resource is known", Config{FieldPermissions: fps(onPods)}, map[Resource]bool{pods: true, {"batch", "cronjobs"}: true, bindings: true, revisions: true, {"", "secrets"}: false}},
		{"its field is not", Config{FieldPermissions: fps(permissionObject("bad", "spec.count", "ex.com/count", exclusive, "secrets"))}, map[Resource]bool{pods: false, {"", "secrets"}: true}},
		{"it withholds nothing", Config{FieldPermissions: fps(permissionObject("bad", "spec.count", "ex.com/count", nil, "secrets"))}, map[Resource]bool{{"", "secrets"}: false}},
		{"a custom resource", Config{Unreadable: []Unreadable{{"x", Resource{"example.com", "widgets"}}}}, map[Resource]bool{{"example.com", "widgets"}: true, pods: false}},
		{"all can be read", Config{}, map[Resource]bool{pods: false}},
	} {
		tc.config.Expressions = goExpressions{}
		table, _ := New(tc.config)
		for r, want := range tc.want {
			if got := table.Unreadable(r); (got != "") != want {
				t.Errorf("%s: %v: %q", tc.name, r, got)
			}
		}
	}
}

// SV-8, FP-4: a declaration that does not compile is reported, covers nothing, and excludes what it says without its
// condition; everything else takes effect.
func TestBrokenDeclarations(t *testing.T) {
	good := permissionObject("good", ".spec.level", "ex.com/level", nil, "widgets.example.com")
	for _, tc := range []struct {
		name      string
		fp        *policyv1alpha1.FieldPermission
		issue     string
		exclusive bool // whether .spec.count stays excluded
		covers    bool // whether holding the permission is enough
	}{
		{"bad name", permissionObject("bad", ".spec.count", "Count", exclusive, "widgets.example.com"), "must be in lowerCamelCase", true, false},
		{"bad condition", permissionObject("bad", ".spec.count", "ex.com/count", exclusiveWhen("nope"), "widgets.example.com"), "exclusive for every value", true, true},
		{"bad parameter", permissionObject("bad", ".spec.count", "ex.com/count", func(s *policyv1alpha1.FieldPermissionSpec) {
			exclusive(s)
			parameter("nope", "")(s)
		}, "widgets.example.com"), "undeclared reference", true, false},
		{"bad second resource", permissionObject("bad", ".spec.count", "ex.com/count", exclusive, "widgets.example.com", "a/b"), "without a subresource", true, false},
		{"bad path", permissionObject("bad", "spec.count", "ex.com/count", exclusive, "widgets.example.com"), "must start with a dot", false, false},
		{"no resource", permissionObject("bad", ".spec.count", "ex.com/count", exclusive), "must name at least one resource", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, issues := New(Config{FieldPermissions: fps(tc.fp, good), Expressions: goExpressions{}})
			if len(issues) != 1 || !strings.Contains(issues[0].Message, tc.issue) || issues[0].Source != `FieldPermission "bad"` {
				t.Fatalf("issues %v", issues)
			}
			const count, level = "spec: {count: 2}", "spec: {level: x}"
			if got := decideWidget(t, table, General, holds(), "{}", count); got.Allowed() == tc.exclusive {
				t.Errorf("excluded %v: %s", !got.Allowed(), got.Reason())
			}
			if got := decideWidget(t, table, Granular, holds("granular:"+tc.fp.Spec.Permission), "{}", count); got.Allowed() != tc.covers {
				t.Errorf("covered %v: %s", got.Allowed(), got.Reason())
			}
			expect(t, decideWidget(t, table, Granular, holds("granular:ex.com/level"), "{}", level), "")
		})
	}
	without, issues := New(Config{FieldPermissions: fps(permissionObject("x", ".spec.count", "ex.com/count", exclusiveWhen("self == true"), "*"))})
	if len(issues) != 1 || decideWidget(t, without, General, holds(), "{}", "spec: {count: 2}").Allowed() {
		t.Errorf("without CEL: issues %v", issues)
	}
}

// FP-10, FP-1: a custom resource that keeps a field at another place in another version gives the same answer, and a
// version that nobody declared anything for is no way round.
func TestVersions(t *testing.T) {
	declared := []Declaration{
		{Source: "crd", Resources: []Resource{widgets}, Version: "v1", Permission: self, Field: mustPath(t, ".spec.triggerSelfDestruct"), Exclusive: true},
		{Source: "crd", Resources: []Resource{widgets}, Version: "v2", Permission: self, Field: mustPath(t, ".spec.config.trigger"), Exclusive: true},
	}
	table, issues := New(Config{Declared: declared})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	decide := func(version, text string) string {
		h := holds()
		return table.Decide(Request{Target: Target{Resource: widgets, Version: version}, Mode: General, Check: h.check,
			Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return widget(t, "{}"), widget(t, text), nil }}).Reason()
	}
	v1, v2 := "spec: {triggerSelfDestruct: true}", "spec: {config: {trigger: true}}"
	for _, tc := range []struct{ version, text, want string }{
		{"v1", v1, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"v2", v2, "field .spec.config.trigger needs " + selfVerb},
		{"v1", v2, ""},
		{"v2", v1, ""},
		{"v3", v1, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"v3", v2, "field .spec.config.trigger needs " + selfVerb},
	} {
		if got := decide(tc.version, tc.text); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.version, tc.text, got, tc.want)
		}
	}
}

// FP-2, FP-3: a custom resource with a scale subresource has the permission replicas where its scale field is.
func TestCustomScale(t *testing.T) {
	table, issues := New(Config{Scaled: map[Resource][]Path{widgets: {mustPath(t, ".spec.count")}}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	expect(t, decideWidget(t, table, Granular, holds("granular:replicas"), "spec: {count: 1}", "spec: {count: 2}"), "")
	expect(t, decideWidget(t, table, Granular, holds("granular:replicas"), "spec: {count: 1}", "spec: {count: 1, level: x}"), "field .spec.level needs granular:specification")
}

// FP-12: the reference lists every permission with its fields, flat and by resource.
func TestReference(t *testing.T) {
	table := mustTable(t,
		permissionObject("psl", ".metadata.labels[pod-security.kubernetes.io/enforce]", "proviso.dev/podSecurityLevel", exclusive, "namespaces"),
		permissionObject("host", ".spec.hostNetwork", "ex.com/hostNetwork", exclusiveWhen("self == true"), "pods"))
	var flat []string
	for _, e := range table.Permissions() {
		flat = append(flat, e.Verb+" "+e.Resource+" "+e.Field)
	}
	for _, want := range []string{
		"granular:label(<prefix>) * .metadata.labels[]", "granular:condition(<type>) * .status.conditions[]", "granular:replicas deployments.apps .spec.replicas",
		"granular:nodeAssignment pods .spec.nodeName", "granular:nodeAssignment cronjobs.batch .spec.jobTemplate.spec.template.spec.nodeName",
		"granular:proviso.dev/podSecurityLevel namespaces .metadata.labels[pod-security.kubernetes.io/enforce]",
		"granular:ex.com/hostNetwork deployments.apps .spec.template.spec.hostNetwork",
	} {
		if !slices.Contains(flat, want) {
			t.Errorf("not in the list: %s\n%s", want, strings.Join(flat, "\n"))
		}
	}
	if !slices.IsSortedFunc(table.Permissions(), func(a, b Entry) int { return strings.Compare(a.Permission, b.Permission) }) {
		t.Error("the list is not in order")
	}
	var lines []string
	for _, e := range table.For(Resource{"", "namespaces"}) {
		lines = append(lines, e.Field+" "+e.Verb)
		if e.Exclusive != (e.Permission == "proviso.dev/podSecurityLevel") {
			t.Errorf("%+v", e)
		}
	}
	want := `.metadata granular:metadata
.metadata.annotations granular:annotations
.metadata.annotations[] granular:annotation(<prefix>)
.metadata.finalizers granular:finalizers
.metadata.finalizers[] granular:finalizer(<prefix>)
.metadata.labels granular:labels
.metadata.labels[] granular:label(<prefix>)
.metadata.labels[pod-security.kubernetes.io/enforce] granular:proviso.dev/podSecurityLevel
.metadata.ownerReferences granular:ownerReferences
.spec granular:specification
.status granular:status
.status.conditions granular:conditions
.status.conditions[] granular:condition(<type>)`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("\n%s", got)
	}
	// What the reference says of a resource is what is enforced there.
	for _, e := range table.For(pods) {
		if e.Permission == "ex.com/hostNetwork" && (e.ExclusiveWhen != "self == true" || e.Source != `FieldPermission "host"`) {
			t.Errorf("%+v", e)
		}
	}
}

// FP-19: a custom resource that declares a shipped permission for the field that it is shipped for has it once, as
// declared. The gates of a pod have a permission, in templates too.
func TestDeclaredOnce(t *testing.T) {
	declared := Declaration{Source: `CustomResourceDefinition "widgets.example.com"`, Resources: []Resource{widgets}, Version: "v1", Field: path(".spec"), Permission: "specification"}
	table, issues := New(Config{Declared: []Declaration{declared}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	sources := func(r Resource, field string) (all []string) {
		for _, e := range table.For(r) {
			if e.Field == field {
				all = append(all, e.Verb+" by "+e.Source)
			}
		}
		return all
	}
	if got := sources(widgets, ".spec"); !slices.Equal(got, []string{`granular:specification by CustomResourceDefinition "widgets.example.com"`}) {
		t.Errorf("%q", got)
	}
	if got := sources(pods, ".spec"); !slices.Equal(got, []string{"granular:specification by shipped"}) {
		t.Errorf("%q", got)
	}
	for r, field := range map[Resource]string{pods: ".spec.schedulingGates", {"apps", "deployments"}: ".spec.template.spec.schedulingGates"} {
		if got := sources(r, field); !slices.Equal(got, []string{"granular:schedulingGates by shipped"}) {
			t.Errorf("%v: %q", r, got)
		}
	}
}

// FP-4: paths that no schema has are refused with what was probably meant.
func TestCheckPath(t *testing.T) {
	pod, _ := typeOf(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	schemas, err := widgetSchemas()
	if err != nil {
		t.Fatal(err)
	}
	custom, ok := schemas.Type(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	if !ok {
		t.Fatal("no type")
	}
	for _, tc := range []struct {
		of   typed.ParseableType
		path string
		want string
	}{
		{pod, ".spec.nodeName", ""},
		{pod, ".metadata.labels[pod-security.kubernetes.io/enforce]", ""},
		{pod, ".spec.containers[].ports[].hostPort", ""},
		{pod, ".spec.containers[app].image", ""},
		{pod, ".spec.nodename", "field .spec.nodename is not in the schema: did you mean .spec.nodeName?"},
		{pod, ".spec.triggerSelfDestructOnSecurityBreach", "field .spec.triggerSelfDestructOnSecurityBreach is not in the schema"},
		{pod, ".spec.containers.image", "field .spec.containers is a list: write brackets before image, such as .spec.containers[].image"},
		{pod, ".metadata.labels.env", "field .metadata.labels is a map: write its key in brackets, .metadata.labels[env]"},
		{pod, ".spec[nodeName]", "field .spec is an object: name one of its fields"},
		{pod, ".spec.nodeName.x", "field .spec.nodeName is a single value: nothing lies below it"},
		{custom, ".spec.config.any.thing[]", ""},
		{custom, ".spec.partly.unknown", ""},
		{custom, ".metadata.labels[x]", ""},
		{custom, ".spec.parts[].size", ""},
		{custom, ".spec.parts[].sise", "did you mean .spec.parts[].size?"},
		{custom, ".spek", "did you mean .spec?"},
	} {
		err := CheckPath(mustPath(t, tc.path), tc.of)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.path, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want %s", tc.path, err, tc.want)
		}
	}
}

// SV-8: a declaration that a newer version has stored covers nothing and excludes every value.
func TestQuarantined(t *testing.T) {
	fp := &policyv1alpha1.FieldPermission{
		ObjectMeta: metav1.ObjectMeta{Name: "newer", Annotations: map[string]string{policyv1alpha1.AnnotationQuarantined: "field \"spec.more\" is not known"}},
		Spec: policyv1alpha1.FieldPermissionSpec{Resources: []string{"pods"}, Field: ".spec.nodeName", Permission: "example.com/node",
			Exclusive: true, ExclusiveWhen: "self == 'never'"},
	}
	table, issues := New(Config{FieldPermissions: []*policyv1alpha1.FieldPermission{fp}})
	if len(issues) != 1 {
		t.Fatalf("issues: %v", issues)
	}
	old, new := &corev1.Pod{}, &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	r := table.Decide(Request{Target: Target{Resource: pods}, Mode: General, Objects: objects(t, old, new), Check: holds("granular:example.com/node").check})
	if r.Allowed() {
		t.Error("a quarantined exclusive field could be changed")
	}
	r = table.Decide(Request{Target: Target{Resource: pods}, Mode: General, Objects: objects(t, old, old), Check: holds().check})
	if !r.Allowed() {
		t.Errorf("a write that leaves it alone: %s", r.Reason())
	}
}
