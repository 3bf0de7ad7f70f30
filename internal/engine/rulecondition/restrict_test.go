package rulecondition

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
)

func compiler(t testing.TB) *Compiler {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &Compiler{CEL: cel}
}

func pod(node string, labels map[string]any, spec map[string]any) runtime.Object {
	if spec == nil {
		spec = map[string]any{}
	}
	if node != "" {
		spec["nodeName"] = node
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "p", "labels": labels, "resourceVersion": "7", "managedFields": []any{}}, "spec": spec}}
}

// PO-11: what each restriction means, for an allow and for a deny, with old and new object. Every case has a twin.
func TestRestrictions(t *testing.T) {
	restrictions := policyv1alpha1.AttributeRestrictions{}
	labels := map[string]any{"app": "web", "protected": "yes"}
	node := &expr.Request{User: "system:node:n1", Groups: []string{"system:nodes"}, Resource: "pods"}
	pretender := &expr.Request{User: "system:node:n1", Resource: "pods"}
	for _, tt := range []struct {
		name     string
		set      func(*policyv1alpha1.AttributeRestrictions)
		req      *expr.Request
		effect   expr.Effect
		old, new runtime.Object
		other    bool // the body is of another kind
		want     bool
		wantErr  bool
	}{
		{name: "only labels change", set: mutable("labels"), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", labels, nil), want: true},
		{name: "the node changes too", set: mutable("labels"), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n2", labels, nil)},
		{name: "one label key", set: mutable(".metadata.labels[app]"), effect: expr.Allow, old: pod("n1", map[string]any{"x": "1"}, nil), new: pod("n1", map[string]any{"x": "1", "app": "web"}, nil), want: true},
		{name: "another label key", set: mutable(".metadata.labels[app]"), effect: expr.Allow, old: pod("n1", map[string]any{"x": "1"}, nil), new: pod("n1", map[string]any{"x": "2"}, nil)},
		{name: "the first key of a map", set: mutable(`.spec.nodeSelector["disk"]`), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}}), want: true},
		{name: "more than that key", set: mutable(`.spec.nodeSelector["disk"]`), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, map[string]any{"nodeSelector": map[string]any{"disk": "ssd", "zone": "a"}})},
		{name: "a list as a whole", set: mutable(".spec.tolerations"), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, map[string]any{"tolerations": []any{"a"}}), want: true},
		{name: "inside of a list nothing is told apart", set: mutable(".spec.tolerations[a]"), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, map[string]any{"tolerations": []any{"a"}})},
		{name: "nothing may change and nothing does", set: mutable(), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, nil), want: true},
		{name: "nothing may change and something does", set: mutable(), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", labels, nil)},
		{name: "create changes everything", set: mutable("labels"), effect: expr.Allow, new: pod("n1", nil, nil)},
		{name: "another kind of body", set: mutable("labels"), effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, nil), other: true, wantErr: true},

		{name: "stored object has the label", set: contain("protected"), effect: expr.Deny, old: pod("", labels, nil), want: true},
		{name: "stored object has another value", set: contain("protected=no"), effect: expr.Deny, old: pod("", labels, nil)},
		{name: "only the new object has it", set: contain("protected"), effect: expr.Deny, old: pod("", nil, nil), new: pod("", labels, nil)},
		{name: "taking it off does not help", set: contain("protected"), effect: expr.Deny, old: pod("", labels, nil), new: pod("", nil, nil), want: true},

		{name: "a pod of its own node", set: sameNodeOnly, req: node, effect: expr.Allow, old: pod("n1", nil, nil), new: pod("n1", nil, nil), want: true},
		{name: "adopting a pod of another node", set: sameNodeOnly, req: node, effect: expr.Allow, old: pod("n2", nil, nil), new: pod("n1", nil, nil)},
		{name: "somebody with a node's name and not its group", set: sameNodeOnly, req: pretender, effect: expr.Allow, old: pod("n1", nil, nil)},
		{name: "deny for own pods, old or new", set: sameNodeOnly, req: node, effect: expr.Deny, old: pod("n1", nil, nil), new: pod("n2", nil, nil), want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := restrictions
			tt.set(&r)
			rule := &policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"pods"}, AttributeRestrictions: &r}
			cond, errs := compiler(t).Rule(rule, field.NewPath("rules").Index(0), false)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			req := tt.req
			if req == nil {
				req = &expr.Request{User: "edgar", Resource: "pods"}
			}
			data := expr.NewData(expr.DataConfig{Objects: expr.Static{New: tt.new, Old: tt.old}, OwnKind: !tt.other})
			got, err := cond.Evaluate(context.Background(), req, tt.effect, data)
			if (err != nil) != tt.wantErr || got != tt.want {
				t.Errorf("got %v, %v; want %v, error %v", got, err, tt.want, tt.wantErr)
			}
			// What is decided without the object must be what the object then gives.
			if v := cond.Decide(req, tt.effect).Truth(); (v == expr.True && !tt.want) || (v == expr.False && tt.want) {
				t.Errorf("decided %s beforehand, and %v with the object", v, got)
			}
		})
	}
}

// NI-4: who may change only some fields may not have a controller overwrite others because of an annotation. A deny of
// changes of some fields is not evaded by such an annotation, either.
func TestOrdersAreMoreThanAnnotations(t *testing.T) {
	deployment := func(key string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "annotations": map[string]any{key: "1"}}}}
	}
	const rollback = "deprecated.deployment.rollback.to"
	for _, tt := range []struct {
		name, key, resource string
		set                 func(*policyv1alpha1.AttributeRestrictions)
		effect              expr.Effect
		want                bool
	}{
		{"a rollback", rollback, "deployments", mutable(".metadata.annotations"), expr.Allow, false},
		{"a rollback, with the template", rollback, "deployments", mutable(".metadata.annotations", ".spec.template"), expr.Allow, true},
		{"a rollback, with a part of the template", rollback, "deployments", mutable(".metadata.annotations", ".spec.template.spec"), expr.Allow, false},
		{"a rollback, and no other annotation", rollback, "deployments", mutable(".metadata.annotations["+rollback+"]", ".spec"), expr.Allow, false},
		{"another annotation", "x", "deployments", mutable(".metadata.annotations"), expr.Allow, true},
		{"of something that is not rolled back", rollback, "daemonsets", mutable(".metadata.annotations"), expr.Allow, true},
		{"a deny", rollback, "deployments", mutable(".metadata.annotations"), expr.Deny, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := policyv1alpha1.AttributeRestrictions{}
			tt.set(&r)
			cond, errs := compiler(t).Rule(&policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}, AttributeRestrictions: &r}, nil, false)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			without := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d"}}}
			data := expr.NewData(expr.DataConfig{Objects: expr.Static{New: deployment(tt.key), Old: without}, OwnKind: true})
			got, err := cond.Evaluate(context.Background(), &expr.Request{User: "edgar", APIGroup: "apps", Resource: tt.resource}, tt.effect, data)
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func mutable(paths ...string) func(*policyv1alpha1.AttributeRestrictions) {
	return func(r *policyv1alpha1.AttributeRestrictions) { r.FieldsMutable = append([]string{}, paths...) }
}

func contain(entries ...string) func(*policyv1alpha1.AttributeRestrictions) {
	return func(r *policyv1alpha1.AttributeRestrictions) { r.LabelsContain = entries }
}

func sameNodeOnly(r *policyv1alpha1.AttributeRestrictions) { r.SameNodeRestriction = true }

// SV-7, CA-11: what is wrong with a rule is said with field, line and column.
func TestBadRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule policyv1alpha1.PolicyRule
		want []string
	}{
		{"syntax", policyv1alpha1.PolicyRule{Where: "resource.spec ="}, []string{"rules[0].where", "line 1", "column"}},
		{"type", policyv1alpha1.PolicyRule{When: "request.user + 1 == 2"}, []string{"rules[0].when", "line 1"}},
		{"not a boolean", policyv1alpha1.PolicyRule{When: `"yes"`}, []string{"rules[0].when"}},
		{"too long", policyv1alpha1.PolicyRule{When: strings.Repeat("true && ", 2000) + "true"}, []string{"rules[0].when", "bytes"}},
		{"path without a dot", policyv1alpha1.PolicyRule{AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"spec.replicas"}}}, []string{"rules[0].attributeRestrictions.fieldsMutable[0]", "must start with a dot"}},
		{"path without a key", policyv1alpha1.PolicyRule{AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{".a[]"}}}, []string{"fieldsMutable[0]", "write a key"}},
		{"bad label", policyv1alpha1.PolicyRule{AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"-x"}}}, []string{"labelsContain[0]"}},
		{"unknown restriction", policyv1alpha1.PolicyRule{AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{Unrecognized: map[string]runtime.RawExtension{"sameZone": {}}}}, []string{"sameZone", "fieldsMutable"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := compiler(t).Rule(&tt.rule, field.NewPath("rules").Index(0), false)
			if len(errs) == 0 {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("%v does not mention %q", errs, want)
				}
			}
		})
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{".a.b", "labels", ".a[x/y].b", ".", "..", "[", ".a[", ".a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := parsePath(path)
		if err == nil && len(steps) == 0 {
			t.Errorf("%q is accepted and names nothing", path)
		}
	})
}

// CA-1: a where and a when that are too long for one condition together are refused when they are written, with the
// field and the limit; stored ones, and those that just fit, are not. What fits is shown whole, however long the known
// values are.
func TestWhereAndWhenFitTogether(t *testing.T) {
	c := compiler(t)
	long := func(n int) *policyv1alpha1.PolicyRule {
		pad := strings.Repeat("x", n)
		return &policyv1alpha1.PolicyRule{Where: `resource.metadata.labels["a"] != "` + pad + `"`, When: `object.metadata.labels[request.user] != "` + pad + `"`}
	}
	if _, errs := c.Rule(long(6000), field.NewPath("rules").Index(0), false); len(errs) != 1 || errs[0].Field != "rules[0].when" || !strings.Contains(errs[0].Detail, "too long together") {
		t.Errorf("too long: %v", errs)
	}
	if _, errs := c.Rule(long(6000), nil, true); len(errs) > 0 {
		t.Errorf("stored: %v", errs)
	}
	cond, errs := c.Rule(long(5000), nil, false)
	if len(errs) > 0 {
		t.Fatalf("it fits: %v", errs)
	}
	req := &expr.Request{User: strings.Repeat("u", 800), Verb: "update", Resource: "pods", APIVersion: "v1"}
	text := cond.Text(req, expr.Deny)
	if len(text) > expr.MaxLength {
		t.Errorf("the text has %d bytes", len(text))
	}
	if _, issues := c.CEL.Compile(text, expr.Options{Kind: expr.When, Stored: true}); len(issues) > 0 {
		t.Errorf("the text does not compile: %v", issues)
	}
}
