package expr

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// CA-11: syntax and type errors are found when the policy is written, with
// line and column.
func TestCompileIssues(t *testing.T) {
	for _, tc := range []struct {
		name, source string
		kind         Kind
		line, column int
		message      string
	}{
		{"syntax", "object.x ==", When, 1, 12, "Syntax error"},
		{"second line", "object.x == 1 &&\n  request.nope == \"a\"", When, 2, 10, "undefined field 'nope'"},
		{"type", "1 + true == 2", When, 1, 3, "no matching overload"},
		{"unknown variable", "params.x == 1", When, 1, 1, "undeclared reference to 'params'"},
		{"no authorizer", `authorizer.group("").resource("pods").check("get").allowed()`, When, 1, 1, "undeclared reference"},
		{"where sees no object", "object.x == 1", Where, 1, 1, "undeclared reference to 'object'; in where it is called resource"},
		{"when sees no resource", "resource.x == 1", When, 1, 1, "undeclared reference to 'resource'; in when it is called object"},
		{"not bool", `"a" + request.user`, When, 0, 0, "must evaluate to bool"},
		{"maybe bool", "object.flag", When, 0, 0, "== true"},
		{"empty", "", When, 0, 0, "empty"},
		{"too long", `"` + strings.Repeat("x", MaxLength) + `" == ""`, When, 0, 0, "too long"},
		{"not UTF-8", "object.x == \"\xff\"", When, 0, 0, "UTF-8"},
		{"bad regex", `object.x.matches("[")`, When, 1, 18, "invalid regular expression"},
		{"bad kind", "true", Kind(7), 0, 0, "not known"},
		{"three loops", `object.l.all(a, object.l.all(b, object.l.all(c, a == b)))`, When, 0, 0, "too expensive"},
		{"deep", strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), When, 0, 0, "brackets are nested 1000 deep, the limit is 48"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, issues := compiler(t).Compile(tc.source, Options{Kind: tc.kind})
			if p != nil || len(issues) == 0 {
				t.Fatalf("program %v, issues %v", p, issues)
			}
			got := issues[0]
			if got.Line != tc.line || got.Column != tc.column || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v, want line %d, column %d, …%s…", got, tc.line, tc.column, tc.message)
			}
		})
	}
}

// The positive twins.
func TestCompileAccepts(t *testing.T) {
	for kind, sources := range map[Kind][]string{
		When: {
			`object.metadata.namespace == "x" && object.spec.storageClassName == "dev"`,
			`object.l.all(a, oldObject.l.exists(b, a == b))`,
			`object.metadata.finalizers.filter(f, !(f in oldObject.metadata.finalizers)) == ["example.com/mine"]`,
			`options.path == "/configz"`, `operation in ["CREATE", "UPDATE"]`,
			`namespaceObject.metadata.labels["env"] == "dev"`,
			`impersonatedRequest.verb == "get" && impersonatedRequest.resource == "pods"`,
			`request.fieldSelector.requirements.exists(r, r.key == "spec.nodeName" && r.operator == "In" && r.values == ["n"])`,
			`quantity(object.spec.size).isLessThan(quantity("1Gi")) && ip.isCanonical("127.0.0.1")`,
			`object.?spec.x.orValue("") == "" && format.dns1123Label().validate(object.metadata.name) == optional.none()`,
			`sets.contains(["a"], object.l) && semver("1.0.0").isLessThan(semver("2.0.0"))`,
			`object.metadata.labels.all(k, v, k != v)`,
		},
		Where: {`resource.spec.storageClassName == "dev" || request.user == "x"`},
	} {
		for _, s := range sources {
			if _, issues := compiler(t).Compile(s, Options{Kind: kind}); issues != nil {
				t.Errorf("%s: %v", s, issues)
			}
		}
	}
}

// CA-11: with the type of a kind, a misspelt field is found.
func TestCompileTyped(t *testing.T) {
	schema := &spec.Schema{SchemaProps: spec.SchemaProps{
		Type: []string{"object"},
		Properties: map[string]spec.Schema{
			"spec": {SchemaProps: spec.SchemaProps{
				Type: []string{"object"},
				Properties: map[string]spec.Schema{
					"replicas":  {SchemaProps: spec.SchemaProps{Type: []string{"integer"}}},
					"namespace": {SchemaProps: spec.SchemaProps{Type: []string{"string"}}},
				},
			}},
		},
	}}
	typ := NewType("Thing", schema)
	for _, tc := range []struct {
		source string
		kind   Kind
		want   string
	}{
		{`object.spec.replicas > 1 && object.metadata.name == "x" && object.spec.namespace == "y"`, When, ""},
		{`object.spec.replicsa > 1`, When, "line 1, column 12: undefined field 'replicsa'"},
		{`oldObject.spec.replicas == "x"`, When, "no matching overload"},
		{`resource.spec.replicas > 1`, Where, ""},
		{`resource.spec.replica > 1`, Where, "undefined field 'replica'"},
	} {
		_, issues := compiler(t).Compile(tc.source, Options{Kind: tc.kind, Types: []*Type{nil, typ}})
		if (tc.want == "") != (issues == nil) || !strings.Contains(issues.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.source, issues, tc.want)
		}
		if _, issues := compiler(t).Compile(tc.source, Options{Kind: tc.kind}); issues != nil {
			t.Errorf("%s: without the type: %v", tc.source, issues)
		}
	}
	if NewType("none", nil) != nil {
		t.Error("no schema must give no type")
	}
}

func TestNewRefusesVersion(t *testing.T) {
	if _, err := New(Config{Version: &version.Version{}}); err == nil || !strings.Contains(err.Error(), "minor") {
		t.Errorf("error %v", err)
	}
	if _, err := New(Config{Version: version.MajorMinor(1, 37)}); err != nil {
		t.Error(err)
	}
}

// An old compatibility version hides new libraries from new expressions, not
// from stored ones.
func TestStoredExpressions(t *testing.T) {
	old, err := New(Config{Version: version.MajorMinor(1, 30)})
	if err != nil {
		t.Fatal(err)
	}
	const source = `semver("1.0.0").major() == 1 && object.x == 1`
	if _, issues := old.Compile(source, Options{}); issues == nil {
		t.Error("a new expression may use a library that is too new")
	}
	if _, issues := old.Compile(source, Options{Stored: true}); issues != nil {
		t.Error(issues)
	}
}

// Bad input never panics, whatever is done with it.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`object.x == 1`, `resource.metadata.labels["a"] == "b"`, `request.groups.exists(g, g == object.x)`, `has(a.b)`,
		`((((`, `"`, `a.b.c[0].?d[?1]`, `[1,2].map(x, x*2)`, `{"a": 1}.a`, `-(-1) == 1`, `b"\x00" == b''`, `!!true`, `1u in [1u]`,
		`[?optional.of(1)]`, `proviso.Request{user: "a"}.user == "a"`, `x.all(y, z)`, `object.all(request, resource, true)`, "\x00",
		`.request.user == "a"`, `[request].all(request, .request.user == "a")`,
	} {
		f.Add(s)
	}
	c := compiler(f)
	req := selecting(f, "a", "env=x", "spec.nodeName=y")
	f.Fuzz(func(t *testing.T, source string) {
		for _, kind := range []Kind{When, Where} {
			p, issues := c.Compile(source, Options{Kind: kind})
			if (p == nil) == (issues == nil) {
				t.Fatalf("program %v and issues %v", p, issues)
			}
			if p == nil {
				continue
			}
			for _, effect := range []Effect{Allow, Deny} {
				p.Decide(req, effect)
				if text := p.Text(req, effect); len(text) > MaxLength {
					t.Fatalf("text of %d bytes", len(text))
				}
				_, _ = p.Evaluate(context.Background(), req, effect, data("CREATE", map[string]any{"x": int64(1)}, nil))
			}
			Implied(p, req, podFields)
		}
	})
}
