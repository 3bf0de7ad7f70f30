package expr

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// CA-12: what is known with the request alone, by effect. The request is edgar().
func TestDecide(t *testing.T) {
	long := `object.s.contains(object.t)` // no bound on its cost
	for _, tc := range []struct {
		source      string
		allow, deny Truth
	}{
		{`object.x == 1`, Unresolved, Unresolved},
		{`true`, True, True},
		{`false`, False, False},
		{`false && object.x == 1`, False, False},
		{`true || object.x == 1`, True, True},
		{`object.x == 1 && false`, False, Unresolved},
		{`request.user == "edgar"`, True, True},
		{`request.user == "eve"`, False, False},
		{`request.extra["none"][0] == "x"`, Failed, Failed},
		{`request.user == "eve" && object.x == 1`, False, False},
		{`request.user == "edgar" && object.x == 1`, Unresolved, Unresolved},
		// x && false: dropped from an allow, kept in a deny because x may fail.
		{`object.x == 1 && request.user == "eve"`, False, Unresolved},
		{long + ` && request.user == "eve"`, False, Unresolved},
		// x || true: only if x cannot be too expensive.
		{`object.x == 1 || request.user == "edgar"`, True, True},
		{long + ` || request.user == "edgar"`, Unresolved, Unresolved},
		{`request.user == "edgar" || ` + long, True, True},
		// An error does not decide where the rest may.
		{`request.extra["none"][0] == "x" || object.x == 1`, Unresolved, Unresolved},
		{`request.extra["none"][0] == "x" && object.x == 1`, Unresolved, Unresolved},
		{`request.groups.exists(g, g == object.owner)`, Unresolved, Unresolved},
		{`request.groups.exists(g, g == "nobody") && object.l.all(x, x == 1)`, False, False},
		{`request.user == "edgar" ? object.x == 1 : true`, Unresolved, Unresolved},
		{`request.user == "eve" ? object.x == 1 : true`, True, True},
		{`object.x == 1 ? true : true`, Unresolved, Unresolved},
		{`[1].all(object, object == 1)`, True, True},
	} {
		p := compile(t, When, tc.source)
		for effect, want := range map[Effect]Truth{Allow: tc.allow, Deny: tc.deny, NoOpinion: tc.deny} {
			out := p.Decide(edgar(), effect)
			if out.Truth() != want {
				t.Errorf("%s %s: %v, want %v", effect, tc.source, out.Truth(), want)
			}
			if (out.Err() != nil) != (want == Failed) {
				t.Errorf("%s %s: error %v", effect, tc.source, out.Err())
			}
			if out.Residual().IsZero() == (want == Unresolved) {
				t.Errorf("%s %s: residual %v", effect, tc.source, out.Residual())
			}
		}
	}
}

// The zero values are closed.
func TestZeroValues(t *testing.T) {
	var out Finding
	if out.Truth() != Unresolved {
		t.Errorf("zero finding is %v", out.Truth())
	}
	if ok, err := out.Residual().Evaluate(context.Background(), data("CREATE", nil, nil)); ok || err == nil {
		t.Errorf("zero residual gives %v, %v", ok, err)
	}
	var e Effect
	if e != Deny {
		t.Errorf("zero effect is %v", e)
	}
	if err := DecidedError(nil).Err(); err == nil {
		t.Error("a failure without a reason has no error")
	}
	var d Data // not made by NewData: no budget
	if ok, err := compile(t, When, `object == null`).Evaluate(context.Background(), edgar(), Allow, &d); ok || err == nil {
		t.Errorf("zero data gives %v, %v", ok, err)
	}
}

// CA-13, and no allocation for rules that cannot be decided by the request.
func TestDecideAllocatesNothing(t *testing.T) {
	req := edgar()
	for _, source := range []string{`object.spec.x == "dev"`, `object.l.all(x, x == 1)`, `true`, `false && object.x == 1`} {
		var c Condition = compile(t, When, source)
		if n := testing.AllocsPerRun(100, func() {
			if c.Decide(req, Allow).Truth() == Failed {
				t.Error("failed")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", source, n)
		}
	}
}

func TestAll(t *testing.T) {
	w := func(s string) Condition { return compile(t, When, s) }
	yes, no, bad := w(`request.user == "edgar"`), w(`request.user == "eve"`), w(`request.extra["none"][0] == "x"`)
	open, open2 := w(`object.x == 1`), w(`object.y == 2`)
	for _, tc := range []struct {
		name        string
		c           Condition
		allow, deny Truth
		text        string
	}{
		{"none", All(), True, True, "true"},
		{"one", All(open), Unresolved, Unresolved, "object.x == 1"},
		{"known", All(yes, yes), True, True, "true"},
		{"false", All(yes, no), False, False, "false"},
		{"left false", All(no, open), False, False, ""},
		{"right false", All(open, no), False, Unresolved, "(object.x == 1) && (false)"},
		{"left fails", All(bad, open), Failed, Failed, ""},
		{"right fails", All(open, bad), Failed, Unresolved, ""},
		{"rest", All(yes, open), Unresolved, Unresolved, "object.x == 1"},
		{"two", All(open, yes, open2), Unresolved, Unresolved, "(object.x == 1) && (object.y == 2)"},
	} {
		if got := tc.c.Decide(edgar(), Allow).Truth(); got != tc.allow {
			t.Errorf("%s: allow %v, want %v", tc.name, got, tc.allow)
		}
		if got := tc.c.Decide(edgar(), Deny).Truth(); got != tc.deny {
			t.Errorf("%s: deny %v, want %v", tc.name, got, tc.deny)
		}
		if got := tc.c.Text(edgar(), Deny); tc.text != "" && got != tc.text {
			t.Errorf("%s: text %s, want %s", tc.name, got, tc.text)
		}
	}
	both := All(open, open2)
	for _, tc := range []struct {
		object map[string]any
		want   answer
	}{
		{map[string]any{"x": int64(1), "y": int64(2)}, yes2},
		{map[string]any{"x": int64(1), "y": int64(3)}, no2},
		{map[string]any{"x": int64(2)}, no2},
		{map[string]any{"y": int64(3)}, fails},
	} {
		if got := toAnswer(both.Evaluate(context.Background(), edgar(), Deny, data("CREATE", tc.object, nil))); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.object, got, tc.want)
		}
	}
	if got := All(open, goCondition{}).Type(); got != "example.com/go" {
		t.Errorf("type %s", got)
	}
	if got := All(open, open2).Type(); got != TypeCEL {
		t.Errorf("type %s", got)
	}
}

const yes2, no2 = yes, no // TestAll has variables of these names

// goCondition shows that a condition need not be CEL.
type goCondition struct{}

func (goCondition) Type() string { return "example.com/go" }
func (g goCondition) Decide(r *Request, e Effect) Finding {
	return Undecided(g, r, e)
}
func (goCondition) Evaluate(_ context.Context, _ *Request, _ Effect, d *Data) (bool, error) {
	o, err := d.Object("")
	return o != nil, err
}
func (goCondition) Text(*Request, Effect) string { return "there is an object" }

func TestGoCondition(t *testing.T) {
	res := goCondition{}.Decide(edgar(), Deny).Residual()
	if ok, err := res.Evaluate(context.Background(), data("CREATE", map[string]any{}, nil)); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if ok, err := res.Evaluate(context.Background(), data("DELETE", nil, map[string]any{})); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if res.Text() != "there is an object" || res.Type() != "example.com/go" || res.Effect() != Deny || res.Request() == nil {
		t.Errorf("residual %+v", res)
	}
}

// CA-11: what `request` shows.
func TestRequestVariable(t *testing.T) {
	ls, err := labels.ParseToRequirements("a=b,c,n>1")
	if err != nil {
		t.Fatal(err)
	}
	attrs := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "u", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "list", Namespace: "ns", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "scale", Name: "n",
		FieldSelectorRequirements: fields.Requirements{{Operator: "=", Field: "f", Value: "x"}, {Operator: "!=", Field: "g", Value: "y"}},
		LabelSelectorRequirements: ls,
	}
	const all = `request.user == "u" && request.uid == "7" && request.groups == ["g"] && request.extra == {"k": ["v"]} &&
		request.verb == "list" && request.namespace == "ns" && request.apiGroup == "apps" && request.apiVersion == "v1" &&
		request.resource == "deployments" && request.subresource == "scale" && request.name == "n" &&
		request.fieldSelector.requirements.map(r, r.key + r.operator + r.values[0]) == ["fInx", "gNotIny"] &&
		request.labelSelector.requirements.map(r, r.key + r.operator) == ["aIn", "cExists", "nGt"] &&
		request.labelSelector.requirements[1].values == [] && dyn(request).size() == 14 && request.time == timestamp("2026-11-17T08:00:00.000001Z") && dyn(request).all(k, k != "")`
	if out := compile(t, When, all).Decide(NewRequestAt(attrs, time.Date(2026, 11, 17, 8, 0, 0, 1999, time.UTC)), Deny); out.Truth() != True {
		t.Errorf("%v %v", out.Truth(), out.Err())
	}
	// What is missing is empty, not an error; a selector that does not parse says nothing.
	attrs = authorizer.AttributesRecord{LabelSelectorParsingErr: errors.New("bad"), FieldSelectorParsingErr: errors.New("bad")}
	const none = `request.user == "" && request.groups == [] && request.extra == {} && request.name == "" &&
		request.fieldSelector.requirements == [] && request.labelSelector.requirements == []`
	if out := compile(t, When, none).Decide(NewRequest(attrs), Deny); out.Truth() != True {
		t.Errorf("%v %v", out.Truth(), out.Err())
	}
}

// CA-10: the where of a deny that fails holds, and says so, also beside a when that holds.
func TestAllKeepsFailures(t *testing.T) {
	failing, holds := compile(t, Where, `request.extra["none"][0] == "x"`), compile(t, When, `request.user == "edgar"`)
	for _, c := range []Condition{All(failing, holds), All(holds, failing), All(failing)} {
		if out := c.Decide(edgar(), Deny); out.Truth() != True || out.Err() == nil {
			t.Errorf("%v, %v", out.Truth(), out.Err())
		}
	}
	if out := All(holds, holds).Decide(edgar(), Deny); out.Truth() != True || out.Err() != nil {
		t.Errorf("%v, %v", out.Truth(), out.Err())
	}
}
