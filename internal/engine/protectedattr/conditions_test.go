package protectedattr

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation"
)

func decode(raw []byte) map[string]interface{} {
	var m map[string]interface{}
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
})

// evaluate runs a condition the way a reader of the review would.
func evaluate(t testing.TB, expression string, object, oldObject any) bool {
	t.Helper()
	env, err := celEnv()
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s\n%v", expression, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := program.Eval(map[string]any{"object": object, "oldObject": oldObject})
	if err != nil {
		t.Fatalf("%s\n%v", expression, err)
	}
	return out.Value().(bool)
}

// conditionsAgree: some condition is true of exactly those writes that are refused.
func (w world) conditionsAgree(t *testing.T, ix *Index, got Result) {
	t.Helper()
	var old any
	if w.old != nil {
		old = loosely(t, w.old)
	}
	denied := false
	for _, c := range ix.Conditions(w.request()) {
		denied = denied || evaluate(t, c.Expression, loosely(t, w.new), old)
	}
	if denied == got.Allowed() {
		t.Fatalf("conditions deny %v, the check says %q\nin %+v", denied, got.Reason(), w)
	}
}

// PA-8: what a review shows is what is enforced.
func TestConditionsAgree(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range lawRuns(60) {
		randomWorld(r).laws(t, r, true)
	}
}

// PA-8: text, in words and in CEL; what the caller may touch is left out.
func TestConditionText(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"), clusterLabel("env", "env", testers))
	req := podRequest()
	req.Subresource = "binding"
	got := ix.Conditions(req)
	if len(got) != 1 {
		t.Fatalf("%d conditions", len(got))
	}
	want := Condition{
		ID: got[0].ID,
		Description: `label env may not be set to, changed from or cleared of any value: it is protected by ClusterProtectedAttribute "env" ` +
			`and requires being bound to ClusterRole "testers"`,
		Expression: `[[optional.ofNonZeroValue(object).?metadata.?labels[?"env"], optional.ofNonZeroValue(oldObject).?metadata.?labels[?"env"]]]` +
			`.exists(p, p[0] != p[1] && p.exists(v, v.hasValue()))`,
	}
	if got[0] != want {
		t.Errorf("\n got %+v\nwant %+v", got[0], want)
	}
	req.Member = members(releaseManagers)
	if got := ix.Conditions(req); len(got) != 1 || !strings.Contains(got[0].Expression, `!(v.value() in ["prod"])`) {
		t.Errorf("member for prod: %+v", got)
	}
	req.Member = members(testers)
	if got := ix.Conditions(req); got != nil {
		t.Errorf("member for everything: %+v", got)
	}
}

// PA-8, CA-1: any number of protections of any size fits a set of conditions, and never shows less than is forbidden.
func TestConditionLimits(t *testing.T) {
	long := strings.Repeat("k", 63)
	prefix := strings.Repeat("p", 250) + ".io/"
	for _, tc := range []struct {
		name        string
		protections func() []Protection
	}{
		{"many keys", func() (all []Protection) {
			for i := range 1000 {
				all = append(all, clusterLabel(fmt.Sprint(i), fmt.Sprintf("example.com/key-%d", i), releaseManagers))
			}
			return all
		}},
		{"too many keys", func() (all []Protection) {
			for i := range 5000 {
				all = append(all, clusterLabel(fmt.Sprint(i), fmt.Sprintf("%s%s%d", prefix, long, i), releaseManagers))
			}
			return all
		}},
		{"many values", func() []Protection {
			p := clusterLabel("v", prefix+long, releaseManagers)
			for i := range 2000 {
				p.Values = append(p.Values, fmt.Sprintf("%s-%d", long, i))
			}
			return []Protection{p}
		}},
		{"huge value", func() []Protection {
			return []Protection{{Name: "h", Attribute: Annotation, Key: "note", Role: releaseManagers, Values: []string{strings.Repeat("x", 100_000), "y"}}}
		}},
		{"many exceptions", func() []Protection {
			p := clusterLabel("v", "env", testers)
			for i := range 2000 {
				p.Values = append(p.Values, fmt.Sprintf("value-%d", i))
			}
			return []Protection{p, clusterLabel("all", "env", releaseManagers)}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix := mustIndex(t, tc.protections()...)
			req := &Request{User: "edgar", Group: "apps", Resource: "statefulsets", Namespace: "hammer", Member: members(testers)}
			all := ix.Conditions(req)
			if len(all) == 0 || len(all) > MaxConditions {
				t.Fatalf("%d conditions", len(all))
			}
			seen := map[string]bool{}
			for _, c := range all {
				if len(c.Expression) > MaxExpression || len(c.Description) > MaxDescription || seen[c.ID] {
					t.Errorf("condition %s: expression %d, description %d, repeated %v", c.ID, len(c.Expression), len(c.Description), seen[c.ID])
				}
				if errs := validation.IsQualifiedName(c.ID); len(errs) > 0 {
					t.Errorf("%s: %v", c.ID, errs)
				}
				seen[c.ID] = true
			}
			p := tc.protections()[len(tc.protections())-1]
			value := "anything"
			if len(p.Values) > 0 {
				value = p.Values[0]
			}
			object := map[string]any{"metadata": map[string]any{p.Attribute.field(): map[string]any{p.Key: value}}}
			if ix.Check(req, nil, object).Allowed() {
				t.Fatal("allowed")
			}
			for _, c := range all {
				about := c.Expression == "true" || strings.Contains(c.Expression, celString(p.Key))
				if about && evaluate(t, c.Expression, object, nil) {
					return
				}
			}
			t.Error("refused by the check, denied by no condition")
		})
	}
}

// PA-15: a protection makes conditional only what it can reach. If it is not known what is served, that is everything.
func TestConditionsOnSomeResources(t *testing.T) {
	p := clusterLabel("team", "example.com/*", releaseManagers)
	p.Resources = []string{"Namespace"}
	ix := mustIndex(t, p)
	for _, tc := range []struct {
		group, resource string
		kinds           bool
		want            int
	}{{"", "namespaces", true, 1}, {"", "pods", true, 0}, {"apps", "statefulsets", true, 0}, {"*", "*", true, 1}, {"", "pods", false, 1}} {
		req := &Request{User: "edgar", Group: tc.group, Resource: tc.resource, Namespace: "hammer"}
		if tc.kinds {
			req.Kinds = lawKinds
		}
		if got := ix.Conditions(req); len(got) != tc.want {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

// PA-14: a value that nobody may set is refused with those that may be used.
func TestUnlistedValueText(t *testing.T) {
	p := clusterLabel("env", "env", releaseManagers, "dev", "prod")
	p.Closed = true
	ix := mustIndex(t, p)
	req := podRequest()
	req.Member = members(releaseManagers)
	labelled := func(value string) any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": value}}}
	}
	if got := ix.Check(req, nil, labelled("mars")).Reason(); got != `label env=mars is not a value that may be used: ClusterProtectedAttribute "env" allows only dev and prod` {
		t.Errorf("got %q", got)
	}
	if got := ix.Check(req, labelled("mars"), labelled("dev")); !got.Allowed() {
		t.Errorf("a member replaces an unlisted value: %s", got.Reason())
	}
	req.Member = nil
	if got := ix.Check(req, labelled("mars"), map[string]any{}).Reason(); got != `label env=mars is protected by ClusterProtectedAttribute "env"; changing it requires being bound to ClusterRole "release-managers"` {
		t.Errorf("got %q", got)
	}
}
