package enforce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
)

// askerFunc, schemasFunc and knownBehind are collaborators of tests.
type (
	askerFunc   func(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome
	schemasFunc func(schema.GroupVersionKind) (fieldperm.Converter, error)
	knownBehind struct {
		pod      func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
		versions func(schema.GroupKind) (string, []string)
	}
)

func (f askerFunc) Ask(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome {
	return f(ctx, holder, verb, data)
}

// AskAside is a question that nobody counts.
func (f askerFunc) AskAside(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome {
	return f(ctx, holder, verb+" aside", data)
}

func (f schemasFunc) For(kind schema.GroupVersionKind) (fieldperm.Converter, error) { return f(kind) }

func (k knownBehind) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if k.pod == nil {
		return nil, errors.New("nothing is stored here")
	}
	return k.pod(ctx, namespace, name)
}

func (k knownBehind) Versions(kind schema.GroupKind) (string, []string) {
	if k.versions == nil {
		return "", nil
	}
	return k.versions(kind)
}

// withFields is a world in which the caller holds some verbs, and nothing else is asked.
func withFields(t *testing.T, verb string, d requestctx.Pass, held ...string) (*world, *[]string) {
	t.Helper()
	w := newWorld(verb, d)
	w.snap.Fields = labelTable(t)
	var asked []string
	w.plugin.cfg.Fields = &Fields{
		Asker: askerFunc(func(_ context.Context, _ *requestctx.State, verb string, _ authorizer.ConditionsData) requestctx.Outcome {
			asked = append(asked, verb)
			if slices.Contains(held, verb) {
				return allow
			}
			return noOpinion
		}),
		Schemas: schemasFunc(func(schema.GroupVersionKind) (fieldperm.Converter, error) { return &fieldperm.Schemas{}, nil }),
	}
	return w, &asked
}

const tierVerb, specVerb = "granular:example.com/tier", "granular:specification"

func tier(value string) *unstructured.Unstructured { return widget(map[string]string{"tier": value}) }

func sized(size string) *unstructured.Unstructured {
	o := widget(nil)
	o.Object["spec"] = map[string]any{"size": size}
	return o
}

// FP-5, FP-6: a general writer needs the permission of exclusive fields only; who has rights to single fields needs one
// for each.
func TestFieldsThatAWriteChanges(t *testing.T) {
	granular := requestctx.Granular(nil)
	for name, c := range map[string]struct {
		pass     requestctx.Pass
		held     []string
		old, new *unstructured.Unstructured
		op       admission.Operation
		want     string
		mode     bool // granular in the end
	}{
		"a field that is free":                     {requestctx.Allowed(), nil, sized("1"), sized("2"), admission.Update, "", false},
		"an exclusive field":                       {requestctx.Allowed(), nil, tier("a"), tier("b"), admission.Update, "tier", false},
		"an exclusive field on create":             {requestctx.Allowed(), nil, nil, tier("b"), admission.Create, "tier", false},
		"with its permission":                      {requestctx.Allowed(), []string{tierVerb}, tier("a"), tier("b"), admission.Update, "", false},
		"not changed":                              {requestctx.Allowed(), nil, tier("a"), tier("a"), admission.Update, "", false},
		"a deletion":                               {requestctx.Allowed(), nil, tier("a"), nil, admission.Delete, "", false},
		"nothing of anything":                      {granular, nil, sized("1"), sized("2"), admission.Update, "no condition under which", false},
		"granular, the field":                      {granular, []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "", true},
		"granular, another field":                  {granular, []string{fieldperm.Verb, tierVerb}, sized("1"), sized("2"), admission.Update, "granular:specification", false},
		"granular, no object":                      {granular, []string{fieldperm.Verb, specVerb}, sized("1"), nil, admission.Delete, "no condition under which", false},
		"granular, answered before":                {granular.Answered(resolved(allow)), []string{specVerb}, sized("1"), sized("2"), admission.Update, "", true},
		"granular, answered no":                    {granular.Answered(resolved(noOpinion)), []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "no condition under which", false},
		"granular, answered by nobody":             {granular.Answered(resolved(requestctx.Outcome{})), []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "no condition under which", false},
		"granular, answered, no object":            {granular.Answered(resolved(allow)), []string{specVerb}, sized("1"), nil, admission.Delete, "no condition under which", false},
		"a condition not met, then the fields":     {conditional(noOpinion), []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "", true},
		"a condition not met, no such field":       {conditional(noOpinion), []string{fieldperm.Verb}, sized("1"), sized("2"), admission.Update, "granular:specification", false},
		"a condition not met, and no fields":       {conditional(noOpinion), nil, sized("1"), sized("2"), admission.Update, "no condition under which", false},
		"a condition denies, whatever he holds":    {conditional(deny), []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "a rule says no", false},
		"granular, and a condition denies":         {requestctx.Granular(resolved(deny)), []string{fieldperm.Verb, specVerb}, sized("1"), sized("2"), admission.Update, "a rule says no", false},
		"an update whose stored object is unknown": {requestctx.Allowed(), []string{tierVerb}, nil, tier("b"), admission.Update, "could not be examined", false},
		"an object that is not there":              {requestctx.Allowed(), []string{tierVerb}, tier("a"), nil, admission.Update, "could not be examined", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, asked := withFields(t, "update", c.pass, c.held...)
			w.slots[requestctx.Create] = requestctx.Allowed()
			err := w.admit(t, writeOf(c.op, "", c.old, c.new))
			wants(t, name, err, c.want)
			if c.want == "" && requestctx.NotesOf(w.ctx).WasGranular() != c.mode {
				t.Errorf("granular: %v; asked %v", !c.mode, *asked)
			}
			if want := map[bool]string{true: "allow", false: "forbid"}[c.want == ""]; slices.ContainsFunc(*asked, func(v string) bool { return v != fieldperm.Verb }) &&
				audit.AuditContextFrom(w.ctx).GetEventAnnotations()[AnnotationFieldDecision] != want {
				t.Errorf("annotations %v, want %s", audit.AuditContextFrom(w.ctx).GetEventAnnotations(), want)
			}
		})
	}
}

// FP-12: the audit event says which permissions were asked for, and what came of each.
func TestFieldChecksAreAudited(t *testing.T) {
	w, _ := withFields(t, "update", requestctx.Allowed(), tierVerb)
	wants(t, "held", w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))), "")
	if got := audit.AuditContextFrom(w.ctx).GetEventAnnotations()[AnnotationFieldChecks]; got != tierVerb+"=allow" {
		t.Errorf("held: %q", got)
	}
	w, _ = withFields(t, "update", requestctx.Allowed())
	w.plugin.cfg.Fields.Asker = askerFunc(func(context.Context, *requestctx.State, string, authorizer.ConditionsData) requestctx.Outcome {
		return requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: errors.New("boom")}
	})
	wants(t, "failed", w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))), "tier")
	if got := audit.AuditContextFrom(w.ctx).GetEventAnnotations()[AnnotationFieldChecks]; !strings.HasSuffix(got, "=error") {
		t.Errorf("failed: %q", got)
	}
	w, _ = withFields(t, "update", requestctx.Allowed())
	wants(t, "untouched", w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2"))), "")
	if got := audit.AuditContextFrom(w.ctx).GetEventAnnotations(); got[AnnotationFieldDecision] != "" {
		t.Errorf("nothing exclusive was touched: %v", got)
	}
	// An allowance counts although something beside it failed; anything else is no permission.
	for _, c := range []struct {
		out  requestctx.Outcome
		want string
	}{
		{requestctx.Outcome{Decision: authorizer.DecisionAllow, Detail: errors.New("boom")}, ""}, {requestctx.Outcome{}, "tier"}, {impossible, "tier"}, {deny, "tier"},
	} {
		w.plugin.cfg.Fields.Asker = askerFunc(func(context.Context, *requestctx.State, string, authorizer.ConditionsData) requestctx.Outcome {
			return c.out
		})
		wants(t, "an answer", w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))), c.want)
	}
}

// FP-6, FP-14: without the system nothing is asked and nobody has rights to single fields; what cannot be compared is
// refused.
func TestFieldsFailClosed(t *testing.T) {
	write := writeOf(admission.Update, "", tier("a"), tier("b"))
	w, asked := withFields(t, "update", requestctx.Granular(nil), fieldperm.Verb, tierVerb)
	w.snap.Fields = nil
	wants(t, "the table is not there", w.admit(t, write), "no condition under which")
	w, _ = withFields(t, "update", requestctx.Granular(nil), fieldperm.Verb, tierVerb)
	w.plugin.cfg.Fields = nil
	wants(t, "the system is off", w.admit(t, write), "no condition under which")
	if len(*asked) > 0 {
		t.Errorf("asked %v", *asked)
	}
	w, _ = withFields(t, "update", requestctx.Allowed(), tierVerb)
	w.plugin.cfg.Fields.Schemas = schemasFunc(func(schema.GroupVersionKind) (fieldperm.Converter, error) { return nil, errors.New("no secret schema") })
	err := w.admit(t, write)
	wants(t, "no schema", err, "could not be examined")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the caller learns why: %v", err)
	}
	w, _ = withFields(t, "update", requestctx.Allowed())
	w.snap.Served = nil
	wants(t, "what is not known to be served", w.admit(t, write), "tier")
	w, _ = withFields(t, "update", requestctx.Allowed(), tierVerb)
	w.snap.Served = nil
	wants(t, "the same, with the permission", w.admit(t, write), "")
}

// FP-16: a subresource whose body is of another kind, and of which nothing is known, may write every exclusive field.
func TestHiddenWrites(t *testing.T) {
	pod := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	at := func(sub, kind string) admission.Attributes {
		o := thing("v1", kind, "hammer", "p", nil)
		return admission.NewAttributesRecord(o, o, schema.GroupVersionKind{Version: "v1", Kind: kind}, "hammer", "p", pod, sub, admission.Update, nil, false, &user.DefaultInfo{Name: "edgar"})
	}
	served := newWorld("", requestctx.Allowed()).snap.Served
	for _, c := range []struct {
		sub, kind string
		hidden    bool
	}{{"", "Pod", false}, {"status", "Pod", false}, {"resize2", "Resize", true}, {"unknown", "Resize", true}, {"unknown", "Pod", false}} {
		if got := hides(served, at(c.sub, c.kind)); got != c.hidden {
			t.Errorf("%q with a %s: hidden %v", c.sub, c.kind, got)
		}
	}
	if hides(nil, at("unknown", "Resize")) {
		t.Error("a resource that is newer than what is known shows itself")
	}
	w, _ := withFields(t, "update", requestctx.Allowed())
	wants(t, "hidden", w.admit(t, at("resize2", "Resize")), "tier")
	w, _ = withFields(t, "update", requestctx.Allowed(), tierVerb)
	wants(t, "hidden, with the permission", w.admit(t, at("resize2", "Resize")), "")
	w, asked := withFields(t, "update", requestctx.Allowed())
	wants(t, "an eviction writes no field", w.admit(t, at("eviction", "Eviction")), "")
	if len(*asked) > 0 {
		t.Errorf("asked %v", *asked)
	}
}

// FP-10: both groups of events are one resource, and a version belongs to the kind it is asked for.
func TestComparedVersions(t *testing.T) {
	w := newWorld("update", requestctx.Allowed())
	event := admission.NewAttributesRecord(&eventsv1.Event{}, nil, eventsv1.SchemeGroupVersion.WithKind("Event"), "hammer", "e", eventsv1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, false, nil)
	if got := fieldTarget(w.snap.Served, event); got.Resource != (fieldperm.Resource{Resource: "events"}) || got.Version != "v1" {
		t.Errorf("events: %+v", got)
	}
	f := &fieldWrite{Fields: &Fields{}, ctx: w.context(t), known: w.factsOf(t, event)}
	f.holder = requestctx.From(f.ctx)
	for version, want := range map[string]schema.GroupVersionKind{
		"": corev1.SchemeGroupVersion.WithKind("Event"), "v1": corev1.SchemeGroupVersion.WithKind("Event"), "events.k8s.io/v1": eventsv1.SchemeGroupVersion.WithKind("Event"), "other.io/v1": {}, "a/b/c": {},
	} {
		if got, err := f.version(version); (err == nil) != (want.Kind != "") || err == nil && got != want {
			t.Errorf("version %q: %v %v", version, got, err)
		}
	}
	custom := writeOf(admission.Update, "", sized("1"), sized("2"))
	f.known = w.factsOf(t, custom)
	if got, err := f.version(""); err != nil || got.Version != "v1" {
		t.Errorf("a widget: %v %v", got, err)
	}
	if _, _, err := f.compared("example.com/v7"); err == nil {
		t.Error("a version that does not exist")
	}
}

// FP-16: what a conversion to another version changes in labels and annotations, the write changes; what cannot be
// converted is refused.
func TestOtherVersionsOfAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		storage string
		served  []string
		want    string
	}{
		"no other version":            {"v1", []string{"v1"}, ""},
		"objects are not converted":   {"", []string{"v1"}, ""},
		"a version that is no more":   {"v1", []string{"v1", "v7"}, "could not be examined"},
		"storage that is no more":     {"v7", []string{"v1"}, "could not be examined"},
		"not converted, but another":  {"", []string{"v1", "v7"}, "could not be examined"},
		"storage, and served as well": {"v7", []string{"v1", "v7"}, "could not be examined"},
	} {
		w, _ := withFields(t, "update", requestctx.Allowed(), tierVerb)
		w.plugin.cfg.Fields.Behind = knownBehind{versions: func(schema.GroupKind) (string, []string) { return c.storage, c.served }}
		wants(t, name, w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))), c.want)
		wants(t, name+", status", w.admit(t, writeOf(admission.Update, "status", tier("a"), tier("a"))), c.want)
		if c.want != "" {
			wants(t, name+", another subresource", w.admit(t, writeOf(admission.Update, "approval", tier("a"), tier("a"))), "")
		}
	}
	// Labels that a conversion adds are the caller's.
	w, _ := withFields(t, "update", requestctx.Allowed())
	f := &fieldWrite{Fields: w.plugin.cfg.Fields, ctx: w.context(t), known: w.factsOf(t, writeOf(admission.Update, "", sized("1"), sized("2")))}
	f.holder = requestctx.From(f.ctx)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, &unstructured.Unstructured{})
	f.objects = adds{admission.NewObjectInterfacesFromScheme(scheme)}
	f.Behind = knownBehind{versions: func(schema.GroupKind) (string, []string) { return "v1", []string{"v1", "v2"} }}
	target := fieldTarget(w.snap.Served, f.known)
	if r := f.otherVersions(w.snap.Fields, target, fieldperm.Result{}); r.Allowed() || r.Err != nil || !strings.Contains(r.Reason(), "tier") {
		t.Errorf("a label that a conversion adds: %v %v %v", r.Allowed(), r.Err, r.Reason())
	}
	w.plugin.cfg.Fields.Asker = askerFunc(func(context.Context, *requestctx.State, string, authorizer.ConditionsData) requestctx.Outcome {
		return allow
	})
	if r := f.otherVersions(w.snap.Fields, target, fieldperm.Result{}); !r.Allowed() || len(r.Checks) != 1 {
		t.Errorf("with the permission: %v %v", r.Reason(), r.Checks)
	}
	target.Resource.Resource = "gadgets" // no field of which is exclusive
	if r := f.otherVersions(w.snap.Fields, target, fieldperm.Result{}); r.Allowed() || r.Reason() == "" {
		t.Errorf("what was not allowed before: %v", r)
	}
}

// adds is a conversion that adds a label.
type adds struct{ admission.ObjectInterfaces }

func (a adds) GetObjectConvertor() runtime.ObjectConvertor { return a }

func (adds) Convert(in, out, _ any) error {
	from, to := in.(*unstructured.Unstructured), out.(*unstructured.Unstructured)
	*to = *from.DeepCopy()
	to.SetLabels(map[string]string{"tier": "converted"})
	return nil
}

func (adds) ConvertToVersion(runtime.Object, runtime.GroupVersioner) (runtime.Object, error) {
	return nil, errors.New("not used")
}

func (adds) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("not used")
}

// bindingOf is a Binding for a pod, with labels.
func bindingOf(version string, labels map[string]string) admission.Attributes {
	b := &corev1.Binding{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}, ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: version, Labels: labels}}
	return admission.NewAttributesRecord(b, nil, corev1.SchemeGroupVersion.WithKind("Binding"), "hammer", "p", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "binding", admission.Create,
		nil, false, &user.DefaultInfo{Name: "scheduler"})
}

func podWith(labels map[string]string, err error) func(context.Context, string, string) (*corev1.Pod, error) {
	return func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "7", Labels: labels}}, err
	}
}

// FP-16: a Binding writes its labels into the pod: they are compared with those of the pod that it is pinned to.
func TestBindingsWriteIntoThePod(t *testing.T) {
	missing := apierrors.NewNotFound(corev1.Resource("pods"), "p")
	for name, c := range map[string]struct {
		version string
		labels  map[string]string
		behind  Behind
		want    string
	}{
		"no labels":             {"7", nil, nil, ""},
		"a label of its own":    {"7", map[string]string{"other": "b"}, knownBehind{pod: podWith(nil, nil)}, ""},
		"the exclusive label":   {"7", map[string]string{"tier": "b"}, knownBehind{pod: podWith(nil, nil)}, "tier"},
		"another value":         {"7", map[string]string{"tier": "b"}, knownBehind{pod: podWith(map[string]string{"tier": "a"}, nil)}, "tier"},
		"what the pod has":      {"7", map[string]string{"tier": "a"}, knownBehind{pod: podWith(map[string]string{"tier": "a", "more": "x"}, nil)}, ""},
		"another pod meanwhile": {"6", map[string]string{"tier": "a"}, knownBehind{pod: podWith(map[string]string{"tier": "a"}, nil)}, "the pod has changed meanwhile"},
		"not pinned":            {"", map[string]string{"tier": "a"}, knownBehind{pod: podWith(map[string]string{"tier": "a"}, nil)}, "resourceVersion of the pod"},
		"no pod":                {"7", map[string]string{"tier": "a"}, knownBehind{pod: podWith(nil, missing)}, "not found"},
		"it cannot be read":     {"7", map[string]string{"tier": "a"}, knownBehind{pod: podWith(nil, errors.New("etcd is away"))}, "could not be examined"},
		"nobody can read it":    {"7", map[string]string{"tier": "a"}, knownBehind{}, "could not be examined"},
		"nothing is known":      {"7", map[string]string{"tier": "a"}, nil, "could not be examined"},
	} {
		w, _ := withFields(t, "create", requestctx.Allowed())
		w.plugin.cfg.Fields.Behind = c.behind
		wants(t, name, w.admit(t, bindingOf(c.version, c.labels)), c.want)
	}
}

// FP-16: a Binding that has to be compared with its pod is pinned to it, and a Scale whose managers change is noted.
func TestPin(t *testing.T) {
	allowed, fields := requestctx.Allowed(), labelTable(t)
	pin := func(d requestctx.Pass, attrs admission.Attributes, pod func(context.Context, string, string) (*corev1.Pod, error)) error {
		w := newWorld("create", d)
		w.snap.Fields = fields
		return (&Pin{Behind: knownBehind{pod: pod}}).Admit(w.context(t), attrs, nil)
	}
	versionOf := func(attrs admission.Attributes) string { return attrs.GetObject().(*corev1.Binding).ResourceVersion }
	for name, c := range map[string]struct {
		pass    requestctx.Pass
		version string
		labels  map[string]string
		err     error
		pinned  string
		want    string
	}{
		"labels":                         {allowed, "", map[string]string{"tier": "a"}, nil, "7", ""},
		"no labels":                      {allowed, "", nil, nil, "", ""},
		"no labels, rights to fields":    {requestctx.Granular(nil), "", nil, nil, "", ""},
		"labels, rights to fields":       {requestctx.Granular(nil), "", map[string]string{"x": "y"}, nil, "7", ""},
		"pinned already":                 {allowed, "5", map[string]string{"tier": "a"}, nil, "5", ""},
		"no pod":                         {allowed, "", map[string]string{"tier": "a"}, apierrors.NewNotFound(corev1.Resource("pods"), "p"), "", ""},
		"a pod that nobody can look at":  {allowed, "", map[string]string{"tier": "a"}, errors.New("etcd is away"), "", "etcd is away"},
		"a condition, and another label": {conditional(allow), "", map[string]string{"x": "y"}, nil, "7", ""},
	} {
		attrs := bindingOf(c.version, c.labels)
		wants(t, name, pin(c.pass, attrs, podWith(nil, c.err)), c.want)
		if got := versionOf(attrs); got != c.pinned {
			t.Errorf("%s: pinned to %q, want %q", name, got, c.pinned)
		}
	}
	// Without anything that guards a field or a label there is nothing to compare.
	w := newWorld("create", allowed)
	attrs := bindingOf("", map[string]string{"tier": "a"})
	wants(t, "nothing guarded", (&Pin{Behind: knownBehind{pod: podWith(nil, nil)}}).Admit(w.context(t), attrs, nil), "")
	if versionOf(attrs) != "" {
		t.Error("pinned for nothing")
	}
	wants(t, "no holder", (&Pin{}).Admit(t.Context(), bindingOf("", nil), nil), "")

	managed := func(by string) *unstructured.Unstructured {
		o := thing("autoscaling/v1", "Scale", "hammer", "w", nil)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: by, Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}})
		return o
	}
	for by, want := range map[string]bool{"a": false, "b": true} {
		ctx := w.context(t)
		wants(t, "a scale", (&Pin{}).Admit(ctx, writeOf(admission.Update, "scale", managed("a"), managed(by)), nil), "")
		if requestctx.NotesOf(ctx).Claims() != want {
			t.Errorf("a scale managed by a, then by %s: noted %v", by, !want)
		}
		ctx = w.context(t)
		wants(t, "not a scale", (&Pin{}).Admit(ctx, writeOf(admission.Update, "", managed("a"), managed(by)), nil), "")
		if requestctx.NotesOf(ctx).Claims() {
			t.Error("noted for what is no scale")
		}
	}
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: false, admission.Connect: false} {
		if (&Pin{}).Handles(op) != want || (&ProtectedAttributes{}).Handles(op) != want {
			t.Errorf("%s: handled %v", op, !want)
		}
	}
}

// FP-16: a controller that makes pods from checked templates is told by who it is and what it makes.
func TestCopiers(t *testing.T) {
	const replicaSets = "system:serviceaccount:kube-system:replicaset-controller"
	pod := thing("v1", "Pod", "hammer", "p", nil)
	at := func(who user.Info, resource, sub string) bool {
		return copies(admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "hammer", "p", schema.GroupVersionResource{Version: "v1", Resource: resource}, sub, admission.Create, nil, false, who))
	}
	controller := &user.DefaultInfo{Name: replicaSets}
	if !at(controller, "pods", "") || at(controller, "secrets", "") || at(&user.DefaultInfo{Name: "edgar"}, "pods", "") || at(nil, "pods", "") {
		t.Error("who copies pods is told wrongly")
	}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	if at(node, "pods", "") {
		t.Error("a node copies a pod that is no mirror pod")
	}
	pod.SetAnnotations(map[string]string{"kubernetes.io/config.mirror": "x"})
	pod.Object["spec"] = map[string]any{"nodeName": "n1"}
	if !at(node, "pods", "") || at(node, "pods", "status") {
		t.Error("a mirror pod, and nothing else of it, is a copy")
	}
}
