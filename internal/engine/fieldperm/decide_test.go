package fieldperm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// goExpressions stands in for CEL: each expression is a Go function.
type goExpressions struct{}

type whenFunc func(Change) (bool, error)

func (f whenFunc) Holds(_ context.Context, c Change) (bool, error) { return f(c) }

type parameterFunc func(key string, value, element any) (string, error)

func (f parameterFunc) Parameter(_ context.Context, key string, value, element any) (string, error) {
	return f(key, value, element)
}

func (goExpressions) When(text string) (When, error) {
	switch text {
	case "self == true":
		return whenFunc(func(c Change) (bool, error) { return c.Self == true, nil }), nil
	case "self == oldSelf":
		return whenFunc(func(c Change) (bool, error) { return fmt.Sprint(c.Self) == fmt.Sprint(c.OldSelf), nil }), nil
	case "has(oldSelf)":
		return whenFunc(func(c Change) (bool, error) { return c.OldSelf != nil, nil }), nil
	case "!has(oldSelf)":
		return whenFunc(func(c Change) (bool, error) { return c.OldSelf == nil, nil }), nil
	case "key == 'a'":
		return whenFunc(func(c Change) (bool, error) { return c.Key == "a", nil }), nil
	case "fail":
		return whenFunc(func(Change) (bool, error) { return false, errors.New("no such key") }), nil
	}
	return nil, fmt.Errorf("undeclared reference to %q", text)
}

func (goExpressions) Parameter(text string) (Parameterizer, error) {
	switch text {
	case "element.name":
		return parameterFunc(func(_ string, _, element any) (string, error) { return scalarText(fieldOf(element, "name")) }), nil
	case "key + value":
		return parameterFunc(func(key string, value, _ any) (string, error) {
			text, err := scalarText(value)
			return key + text, err
		}), nil
	}
	return nil, fmt.Errorf("undeclared reference to %q", text)
}

func permissionObject(name, field, permission string, change func(*policyv1alpha1.FieldPermissionSpec), resources ...string) *policyv1alpha1.FieldPermission {
	fp := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fp.Spec = policyv1alpha1.FieldPermissionSpec{Resources: resources, Field: field, Permission: permission}
	if change != nil {
		change(&fp.Spec)
	}
	return fp
}

func exclusive(s *policyv1alpha1.FieldPermissionSpec) { s.Exclusive = true }

func exclusiveWhen(text string) func(*policyv1alpha1.FieldPermissionSpec) {
	return func(s *policyv1alpha1.FieldPermissionSpec) { s.Exclusive, s.ExclusiveWhen = true, text }
}

func parameter(from, treatment string) func(*policyv1alpha1.FieldPermissionSpec) {
	return func(s *policyv1alpha1.FieldPermissionSpec) {
		s.Parameter = &policyv1alpha1.FieldPermissionParameter{From: from, Treatment: policyv1alpha1.ParameterTreatment(treatment)}
	}
}

func mustTable(t testing.TB, fps ...*policyv1alpha1.FieldPermission) *Table {
	t.Helper()
	table, issues := New(Config{FieldPermissions: fps, Expressions: goExpressions{}})
	if len(issues) > 0 {
		t.Fatalf("issues: %v", issues)
	}
	return table
}

var (
	podTarget        = Target{Resource: pods, Version: "v1"}
	deploymentTarget = Target{Resource: Resource{"apps", "deployments"}, Version: "v1"}
	widgetTarget     = Target{Resource: widgets, Version: "v1"}
)

func expect(t *testing.T, r Result, want string) {
	t.Helper()
	switch {
	case r.Err != nil:
		t.Errorf("error: %v", r.Err)
	case r.Allowed() != (r.Reason() == ""):
		t.Errorf("allowed %v with reason %q", r.Allowed(), r.Reason())
	case r.Reason() != want:
		t.Errorf("message\n got %q\nwant %q", r.Reason(), want)
	}
}

// decideWidget decides an update of a widget.
func decideWidget(t *testing.T, table *Table, mode Mode, h *holding, old, new string) Result {
	t.Helper()
	before, after := widget(t, old), widget(t, new)
	return table.Decide(Request{Target: widgetTarget, Mode: mode, Check: h.check,
		Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return before, after, nil }})
}

// FP-8, FP-9: from general to specific, each verb once, what is covered is not asked about again, and the message names
// the first field that is missing and what would cover it.
func TestChecksAndMessages(t *testing.T) {
	table := mustTable(t)
	const (
		two   = "metadata: {labels: {other.com/x: '1', super.safe.com/y: '2'}}"
		three = "{metadata: {labels: {super.safe.com/a: '1', super.safe.com/b: '2'}, finalizers: [super.safe.com/f], annotations: {super.safe.com/n: x}}, status: {conditions: [{type: SuperSafe, status: 'True'}]}}"
	)
	for _, tc := range []struct {
		name, old, new string
		holds          []string
		asked          string
		want           string
	}{
		{"nothing changes", two, two, nil, "", ""},
		{"one general permission", "{}", two, []string{"granular:metadata"}, "granular:metadata", ""},
		{"the next one", "{}", two, []string{"granular:labels"}, "granular:metadata granular:labels", ""},
		{"each prefix", "{}", two, []string{"granular:label(other.com)", "granular:label(super.safe.com)"},
			"granular:metadata granular:labels granular:label(other.com) granular:label(super.safe.com)", ""},
		{"one prefix is missing", "{}", two, []string{"granular:label(super.safe.com)"},
			"granular:metadata granular:labels granular:label(other.com)",
			"field .metadata.labels[other.com/x] needs granular:label(other.com) (or granular:labels, granular:metadata)"},
		{"supersafe", "{}", three,
			[]string{"granular:label(super.safe.com)", "granular:annotation(super.safe.com)", "granular:finalizer(super.safe.com)", "granular:condition(SuperSafe)"},
			"granular:metadata granular:annotations granular:annotation(super.safe.com) granular:finalizers granular:finalizer(super.safe.com) " +
				"granular:labels granular:label(super.safe.com) granular:status granular:conditions granular:condition(SuperSafe)", ""},
		{"another condition", "{}", "status: {conditions: [{type: Ready, status: 'True'}]}", []string{"granular:condition(SuperSafe)"},
			"granular:status granular:conditions granular:condition(Ready)",
			"field .status.conditions[Ready].status needs granular:condition(Ready) (or granular:conditions, granular:status)"},
		{"removing is changing", two, "{}", []string{"granular:label(super.safe.com)"},
			"granular:metadata granular:labels granular:label(other.com)",
			"field .metadata.labels[other.com/x] needs granular:label(other.com) (or granular:labels, granular:metadata)"},
		{"no slash", "{}", "metadata: {labels: {env: x}}", []string{"granular:label(env)"}, "granular:metadata granular:labels granular:label(env)", ""},
		{"specification", "{}", "spec: {level: a, tags: [x], config: {a: 1}}", []string{"granular:specification"}, "granular:specification", ""},
		{"no permission at all", "{}", "extra: 1", []string{"granular:specification"}, "",
			"field .extra has no separate permission: only the right to write the whole object covers it"},
		{"owner references", "{}", "metadata: {ownerReferences: [{uid: u, name: n}]}", []string{"granular:ownerReferences"}, "granular:metadata granular:ownerReferences", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := holds(tc.holds...)
			r := decideWidget(t, table, Granular, h, tc.old, tc.new)
			expect(t, r, tc.want)
			if got := strings.Join(h.asked, " "); got != tc.asked {
				t.Errorf("asked\n got %s\nwant %s", got, tc.asked)
			}
			var recorded []string
			for _, c := range r.Checks {
				recorded = append(recorded, c.Verb)
				if c.Allowed != h.verbs[c.Verb] {
					t.Errorf("%s is recorded as %v", c.Verb, c.Allowed)
				}
			}
			if !slices.Equal(recorded, h.asked) {
				t.Errorf("recorded %v", recorded)
			}
		})
	}
}

// FP-8: a hundred prefixes under one general permission are one check, without it at most 32 are made.
func TestNumberOfChecks(t *testing.T) {
	table := mustTable(t)
	labelled := func(n int) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		for i := range n {
			p.Labels[fmt.Sprintf("d%03d.com/x", i)] = "1"
		}
		return p
	}
	decide := func(n int, h *holding) Result {
		return table.Decide(Request{Target: podTarget, Check: h.check, Objects: objects(t, &corev1.Pod{}, labelled(n))})
	}
	h := holds("granular:metadata")
	expect(t, decide(100, h), "")
	if len(h.asked) != 1 {
		t.Errorf("asked %v", h.asked)
	}
	every := holds()
	for i := range 100 {
		every.verbs[fmt.Sprintf("granular:label(d%03d.com)", i)] = true
	}
	expect(t, decide(30, every), "")
	if len(every.asked) != 32 {
		t.Errorf("%d checks", len(every.asked))
	}
	every.asked = nil
	r := decide(31, every)
	if !r.TooMany || r.Allowed() || !strings.Contains(r.Reason(), "more than 32 checks") || len(every.asked) != MaxChecks {
		t.Errorf("too many %v, reason %q, %d checks", r.TooMany, r.Reason(), len(every.asked))
	}
}

// FP-6: a caller with the general verb is not looked at where nothing is exclusive, and only for what is where
// something is.
func TestGeneralWriter(t *testing.T) {
	plain := mustTable(t)
	never := func() (*typed.TypedValue, *typed.TypedValue, error) {
		t.Error("objects were compared")
		return nil, nil, nil
	}
	expect(t, plain.Decide(Request{Target: podTarget, Mode: General, Objects: never}), "")
	if plain.Guards(podTarget) {
		t.Error("guards pods although nothing is exclusive")
	}

	table := mustTable(t, permissionObject("psl", ".metadata.labels[pod-security.kubernetes.io/enforce]", "proviso.dev/podSecurityLevel", exclusive, "namespaces"))
	namespaces := Target{Resource: Resource{"", "namespaces"}, Version: "v1"}
	if !table.Guards(namespaces) || table.Guards(podTarget) {
		t.Errorf("guards namespaces %v, pods %v", table.Guards(namespaces), table.Guards(podTarget))
	}
	ns := func(level, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pod-security.kubernetes.io/enforce": level, "team": team}}}
	}
	refused := "field .metadata.labels[pod-security.kubernetes.io/enforce] needs granular:proviso.dev/podSecurityLevel"
	for _, tc := range []struct {
		mode     Mode
		holds    []string
		old, new *corev1.Namespace
		want     string
	}{
		{General, nil, ns("restricted", "a"), ns("restricted", "b"), ""},
		{General, nil, ns("restricted", "a"), ns("privileged", "a"), refused},
		{General, []string{"granular:metadata", "granular:labels", "granular:label(pod-security.kubernetes.io)"}, ns("restricted", "a"), ns("privileged", "a"), refused},
		{General, []string{"granular:proviso.dev/podSecurityLevel"}, ns("restricted", "a"), ns("privileged", "b"), ""},
		{General, nil, nil, ns("privileged", "a"), refused},
		{Granular, []string{"granular:metadata"}, ns("restricted", "a"), ns("restricted", "b"), ""},
		{Granular, []string{"granular:metadata"}, ns("restricted", "a"), ns("privileged", "b"), refused},
		{Granular, []string{"granular:proviso.dev/podSecurityLevel"}, ns("restricted", "a"), ns("privileged", "a"), ""},
	} {
		h := holds(tc.holds...)
		var old runtime.Object
		if tc.old != nil {
			old = tc.old
		}
		expect(t, table.Decide(Request{Target: namespaces, Mode: tc.mode, Check: h.check, Objects: objects(t, old, tc.new)}), tc.want)
		if tc.mode == General && slices.ContainsFunc(h.asked, func(v string) bool { return v != "granular:proviso.dev/podSecurityLevel" }) {
			t.Errorf("a general writer was asked for %v", h.asked)
		}
	}
}

// Errors and gaps refuse.
func TestFailsClosed(t *testing.T) {
	table := mustTable(t)
	change := objects(t, &corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}})
	yes := func(string) (bool, error) { return true, nil }
	for name, req := range map[string]Request{
		"no check":      {Target: podTarget, Objects: change},
		"check fails":   {Target: podTarget, Objects: change, Check: func(string) (bool, error) { return true, errors.New("webhook is down") }},
		"no objects":    {Target: podTarget, Check: yes},
		"objects fail":  {Target: podTarget, Check: yes, Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, nil, errors.New("x") }},
		"no new object": {Target: podTarget, Check: yes, Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, nil, nil }},
		"unknown type":  {Target: podTarget, Check: yes, Objects: unknownType(t)},
		"not an object": {Target: podTarget, Check: yes, Objects: notAnObject},
	} {
		if r := table.Decide(req); r.Allowed() || r.Reason() == "" {
			t.Errorf("%s: allowed %v, reason %q", name, r.Allowed(), r.Reason())
		}
	}
	expect(t, table.Decide(Request{Target: podTarget, Check: yes, Objects: change}), "")
	var zero Result
	if zero.Allowed() || zero.Reason() == "" {
		t.Error("the zero result does not refuse")
	}
}

func unknownType(t *testing.T) func() (*typed.TypedValue, *typed.TypedValue, error) {
	return func() (*typed.TypedValue, *typed.TypedValue, error) {
		v := typedOf(t, &corev1.Pod{Spec: corev1.PodSpec{NodeName: "x"}})
		p := typed.Parser{}
		return nil, typed.AsTypedUnvalidated(v.AsValue(), &p.Schema, p.Type("nope").TypeRef), nil
	}
}

func notAnObject() (*typed.TypedValue, *typed.TypedValue, error) {
	v, err := typed.DeducedParseableType.FromUnstructured("text")
	return nil, v, err
}

// FP-7: what an endpoint sets itself is not the caller's change.
func TestResetFields(t *testing.T) {
	table := mustTable(t)
	old := &appsv1.Deployment{}
	new := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 3}, Spec: appsv1.DeploymentSpec{Paused: true}}
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	h := holds("granular:specification")
	expect(t, table.Decide(Request{Target: deploymentTarget, Check: h.check, Objects: objects(t, old, new), Reset: reset}), "")
	expect(t, table.Decide(Request{Target: deploymentTarget, Check: h.check, Objects: objects(t, old, new)}), "field .status.replicas needs granular:status")
	deep := fieldpath.NewSet(fieldpath.MakePathOrDie("status", "replicas"))
	expect(t, table.Decide(Request{Target: deploymentTarget, Check: h.check, Objects: objects(t, old, new), Reset: deep}), "")
}

// A table is used by all requests at once; the race detector sees this test.
func TestConcurrentUse(t *testing.T) {
	table := mustTable(t, permissionObject("host", ".spec.hostNetwork", "ex.com/hostNetwork", exclusive, "pods"))
	pair := objects(t, &appsv1.Deployment{}, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				r := table.Decide(Request{Target: deploymentTarget, Mode: Mode(i % 2), Check: holds("granular:specification").check, Objects: pair})
				if !r.Allowed() {
					t.Error(r.Reason())
				}
			}
		})
	}
	wg.Wait()
}
