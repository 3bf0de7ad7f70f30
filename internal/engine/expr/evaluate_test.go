package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// counting is an Objects that counts and may refuse a version.
type counting struct {
	Static
	refuse string
	calls  map[string]int
}

func (c *counting) load(which, version string, o runtime.Object) (runtime.Object, error) {
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[which+" "+version]++
	if c.refuse != "" && version == c.refuse {
		return nil, fmt.Errorf("no conversion to %s", version)
	}
	return o, nil
}

func (c *counting) Object(v string) (runtime.Object, error)    { return c.load("new", v, c.New) }
func (c *counting) OldObject(v string) (runtime.Object, error) { return c.load("old", v, c.Old) }

// api.md: an allow rule's where must hold for every version that exists, a
// deny rule's applies if any matches or fails.
func TestWhere(t *testing.T) {
	dev, prod, none := map[string]any{"env": "dev"}, map[string]any{"env": "prod"}, map[string]any{}
	p := compile(t, Where, `resource.env == "dev"`)
	for _, tc := range []struct {
		name        string
		old, new    map[string]any
		otherKind   bool
		allow, deny answer
	}{
		{"create matching", nil, dev, false, yes, yes},
		{"create not matching", nil, prod, false, no, no},
		{"create without the field", nil, none, false, fails, yes},
		{"delete matching", dev, nil, false, yes, yes},
		{"delete not matching", prod, nil, false, no, no},
		{"update within", dev, dev, false, yes, yes},
		{"adopt", prod, dev, false, no, yes},
		{"slip out", dev, prod, false, no, yes},
		{"update outside", prod, prod, false, no, no},
		{"false outweighs failing", none, prod, false, no, yes},
		{"failing outweighs true", none, dev, false, fails, yes},
		{"nothing", nil, nil, false, no, yes},
		{"a body of another kind", dev, dev, true, no, yes},
	} {
		d := func() *Data {
			return NewData(DataConfig{OwnKind: !tc.otherKind, Objects: Static{New: obj(tc.new), Old: obj(tc.old)}})
		}
		for effect, want := range map[Effect]answer{Allow: tc.allow, Deny: tc.deny, NoOpinion: tc.deny} {
			got := toAnswer(p.Evaluate(context.Background(), edgar(), effect, d()))
			if got != want {
				t.Errorf("%s: %s %v, want %v", tc.name, effect, got, want)
			}
		}
	}
}

// A where that does not depend on the object still needs one to allow, and
// none to deny.
func TestWhereWithoutObject(t *testing.T) {
	for _, tc := range []struct {
		source      string
		allow, deny Truth
	}{
		{`resource.x == 1`, Unresolved, Unresolved},
		{`request.user == "edgar"`, Unresolved, True},
		{`request.user == "eve"`, False, False},
		{`request.extra["none"][0] == "x"`, Failed, True},
		{`resource.x == 1 && request.user == "eve"`, False, Unresolved},
		{`resource.x.contains(resource.y) || request.user == "edgar"`, Unresolved, True},
	} {
		p := compile(t, Where, tc.source)
		if got := p.Decide(edgar(), Allow).Truth(); got != tc.allow {
			t.Errorf("allow %s: %v, want %v", tc.source, got, tc.allow)
		}
		out := p.Decide(edgar(), Deny)
		if out.Truth() != tc.deny {
			t.Errorf("deny %s: %v, want %v", tc.source, out.Truth(), tc.deny)
		}
		if failing := tc.allow == Failed; (out.Err() != nil) != failing {
			t.Errorf("deny %s: error %v", tc.source, out.Err())
		}
	}
}

// A deny that applies because it fails says so.
func TestFailuresAreKept(t *testing.T) {
	d := data("CREATE", map[string]any{}, nil)
	ok, err := compile(t, Where, `resource.x == 1`).Evaluate(context.Background(), edgar(), Deny, d)
	if !ok || err != nil || len(d.Failures()) != 1 || d.Failures()[0].Reason != ReasonExpression {
		t.Errorf("%v, %v, failures %v", ok, err, d.Failures())
	}
}

// Everything is loaded at most once per request and version, and only if a
// condition asks for it. CA-11: each rule sees its own version.
func TestDataIsLazy(t *testing.T) {
	ns := 0
	objs := &counting{Static: Static{New: obj(map[string]any{"x": int64(1)}), Old: obj(map[string]any{"x": int64(1)})}}
	d := NewData(DataConfig{OwnKind: true, Objects: objs, Namespace: func() (runtime.Object, error) {
		ns++
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"env": "dev"}}}, nil
	}})
	eval := func(kind Kind, version, source string) {
		t.Helper()
		p, issues := compiler(t).Compile(source, Options{Kind: kind, APIVersion: version})
		if issues != nil {
			t.Fatal(issues)
		}
		if ok, err := p.Evaluate(context.Background(), edgar(), Allow, d); !ok || err != nil {
			t.Errorf("%s: %v, %v", source, ok, err)
		}
	}
	eval(When, "", `operation == "" && options == null`)
	if len(objs.calls) != 0 || ns != 0 {
		t.Errorf("loaded %v, namespace %d times, without need", objs.calls, ns)
	}
	for range 3 {
		eval(When, "", `object.x == 1`)
		eval(Where, "", `resource.x == 1`)
		eval(When, "v2", `object.x == 1`)
		eval(When, "", `namespaceObject.metadata.labels["env"] == "dev"`)
	}
	for call, n := range objs.calls {
		if n != 1 {
			t.Errorf("%s: loaded %d times", call, n)
		}
	}
	if len(objs.calls) != 3 || ns != 1 {
		t.Errorf("loaded %v, namespace %d times", objs.calls, ns)
	}
}

// CA-11: no conversion fails closed, whatever the effect.
func TestUnavailableVersion(t *testing.T) {
	objs := &counting{Static: Static{New: obj(map[string]any{"x": int64(1)})}, refuse: "v9"}
	cfg := DataConfig{OwnKind: true, Objects: objs, Namespace: func() (runtime.Object, error) { return nil, errors.New("no such namespace") }}
	compileFor := func(kind Kind, source string) *Program {
		p, issues := compiler(t).Compile(source, Options{Kind: kind, APIVersion: "v9"})
		if issues != nil {
			t.Fatal(issues)
		}
		return p
	}
	for _, source := range []string{`object.x == 1`, `object.x != 1`, `namespaceObject.metadata.name == "x"`, `object == null`} {
		_, err := compileFor(When, source).Evaluate(context.Background(), edgar(), Deny, NewData(cfg))
		var e *EvalError
		if !errors.As(err, &e) || e.Reason != ReasonData {
			t.Errorf("%s: %v", source, err)
		}
	}
	w := compileFor(Where, `resource.x != 1`)
	if ok, err := w.Evaluate(context.Background(), edgar(), Allow, NewData(cfg)); ok || err == nil {
		t.Errorf("allow: %v, %v", ok, err)
	}
	if ok, err := w.Evaluate(context.Background(), edgar(), Deny, NewData(cfg)); !ok || err != nil {
		t.Errorf("deny: %v, %v", ok, err)
	}
}

// Typed objects look as if they came from JSON.
func TestTypedObjects(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	var typedNil *corev1.Pod
	d := NewData(DataConfig{Objects: Static{New: pod, Old: &unstructured.Unstructured{Object: raw}}, Options: typedNil})
	const source = `object.spec == oldObject.spec && object.metadata.labels == oldObject.metadata.labels && options == null &&
		object.spec.containers.all(c, c.image == "i") && !has(object.spec.hostNetwork) && object.spec.nodeName == "n1"`
	if ok, err := compile(t, When, source).Evaluate(context.Background(), edgar(), Allow, d); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// CA-19: conditions over the request that is to be impersonated.
func TestImpersonatedRequest(t *testing.T) {
	p := compile(t, When, `impersonatedRequest.verb == "get" && impersonatedRequest.resource == "pods" && request.name == "foo"`)
	req := &Request{User: "lucas", Verb: "impersonate", Resource: "nodes", Name: "foo"}
	res := p.Decide(req, Allow).Residual()
	for verb, want := range map[string]answer{"get": yes, "list": no} {
		d := NewData(DataConfig{Impersonated: &Request{Verb: verb, Resource: "pods", User: "system:node:foo"}})
		if got := toAnswer(res.Evaluate(context.Background(), d)); got != want {
			t.Errorf("%s: %v", verb, got)
		}
	}
	if got := toAnswer(res.Evaluate(context.Background(), data("CREATE", nil, nil))); got != fails {
		t.Errorf("outside of impersonation: %v", got)
	}
	if _, issues := compiler(t).Compile(`impersonatedRequest.user == "x"`, Options{}); issues == nil {
		t.Error("the impersonated user is not part of impersonatedRequest")
	}
}

func largeList(n int) map[string]any {
	l := make([]any, n)
	for i := range l {
		l[i] = "x"
	}
	return map[string]any{"l": l}
}

// The runtime cost limit of Kubernetes applies to one evaluation, and a budget
// to all conditions of a request.
func TestRuntimeCost(t *testing.T) {
	nested := compile(t, When, `object.l.all(a, object.l.all(b, a == b))`)
	_, err := nested.Evaluate(context.Background(), edgar(), Deny, data("CREATE", largeList(3000), nil))
	var e *EvalError
	if !errors.As(err, &e) || e.Reason != ReasonCost {
		t.Errorf("3000²: %v", err)
	}
	if ok, err := nested.Evaluate(context.Background(), edgar(), Deny, data("CREATE", largeList(100), nil)); !ok || err != nil {
		t.Errorf("100²: %v, %v", ok, err)
	}
	d := NewData(DataConfig{Objects: Static{New: obj(largeList(100))}, Budget: 150000})
	var failed int
	for range 20 {
		if _, err := nested.Evaluate(context.Background(), edgar(), Deny, d); err != nil {
			failed++
			if !errors.As(err, &e) || e.Reason != ReasonCost {
				t.Errorf("budget: %v", err)
			}
		}
	}
	if failed == 0 || failed == 20 {
		t.Errorf("%d of 20 evaluations failed on a budget for a few", failed)
	}
	if ok, err := compile(t, When, `operation == ""`).Evaluate(context.Background(), edgar(), Deny, d); ok || err == nil {
		t.Error("the budget is used up, but a condition was evaluated")
	}
}

// A cancelled request does not evaluate to the end.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(context.DeadlineExceeded)
	for _, source := range []string{`object.l.all(a, object.l.all(b, a == b))`, `object.l[0] == "x"`} {
		ok, err := compile(t, When, source).Evaluate(ctx, edgar(), Allow, data("CREATE", largeList(200), nil))
		var e *EvalError
		if ok || !errors.As(err, &e) || e.Reason != ReasonCancelled || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, %v", source, ok, err)
		}
	}
	if ok, err := compile(t, When, `true`).Evaluate(nil, edgar(), Allow, data("CREATE", nil, nil)); ok || err == nil { //nolint:staticcheck // a nil context must not panic
		t.Errorf("%v, %v", ok, err)
	}
	if ok, err := compile(t, When, `true`).Evaluate(context.Background(), edgar(), Allow, nil); ok || err == nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// CA-10: the error that a caller may see says nothing about the condition or
// the object; the detail does.
func TestErrorsDoNotLeak(t *testing.T) {
	_, err := compile(t, When, `object.secretField == "hush"`).
		Evaluate(context.Background(), edgar(), Allow, data("CREATE", map[string]any{}, nil))
	var e *EvalError
	if !errors.As(err, &e) || e.Reason != ReasonExpression {
		t.Fatalf("%v", err)
	}
	if strings.Contains(err.Error(), "secretField") || !strings.Contains(e.Detail, "secretField") {
		t.Errorf("error %q, detail %q", err, e.Detail)
	}
	for _, r := range []Reason{ReasonCost, ReasonCancelled, ReasonData, ReasonType, ReasonInternal} {
		if msg := (&EvalError{Reason: r, Detail: "secret"}).Error(); strings.Contains(msg, "secret") || !strings.HasPrefix(msg, "condition fails: ") {
			t.Errorf("%s: %q", r, msg)
		}
	}
	// A nil request is a bug of the caller; it must fail, not panic.
	if out := compile(t, When, `request.user == "x"`).Decide(nil, Allow); out.Truth() != Failed {
		t.Errorf("nil request: %v", out.Truth())
	}
}
