package expr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// CA-12: strings in, strings out. The request is edgar().
func TestResidualText(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`object.spec.x == "dev"`, `object.spec.x == "dev"`},
		{`(true || false) && object.x == 1`, `object.x == 1`},
		{`request.user == "edgar" && object.x == 1`, `object.x == 1`},
		{`object.x == 1 && request.user == "edgar"`, `object.x == 1`},
		{`request.user == "eve" || object.x == 1`, `object.x == 1`},
		{`request.user == "eve" && object.x == 1`, `false`},
		{`object.x == 1 && request.user == "eve"`, `object.x == 1 && false`},
		{`object.x == 1 || request.user == "edgar"`, `object.x == 1 || true`},
		{`object.metadata.name == request.user`, `object.metadata.name == "edgar"`},
		{`object.owner == "team-" + request.extra["team"][0]`, `object.owner == "team-blue"`},
		{`object.owner in request.groups`, `object.owner in ["dev", "system:authenticated"]`},
		{`request.groups.exists(g, g == object.owner)`, `["dev", "system:authenticated"].exists(g, g == object.owner)`},
		{`request.groups.exists(g, g == "dev") ? object.x == 1 : object.y == 2`, `object.x == 1`},
		{`!(request.user == "edgar") || object.x == 1`, `object.x == 1`},
		{`object.list.all(i, i.owner == request.user)`, `object.list.all(i, i.owner == "edgar")`},
		{`object.list.all(request, request.user == "x")`, `object.list.all(request, request.user == "x")`},
		{`object.m.all(k, v, v == request.user)`, `object.m.all(k, v, v == "edgar")`},
		{`object.o == request.extra["no"][0]`, `object.o == {"team": ["blue"]}["no"][0]`},
		{`has(object.metadata.labels) && object.metadata.labels[request.namespace] == "x"`,
			`has(object.metadata.labels) && object.metadata.labels["hammer"] == "x"`},
		{`has(object.a[request.user].b)`, `has(object.a["edgar"].b)`},
		{`object.?spec.x.orValue(request.user) == "y"`, `object.?spec.x.orValue("edgar") == "y"`},
		{`object.a[?request.user].hasValue()`, `object.a[?"edgar"].hasValue()`},
		{`dyn(object.flag) && request.user == "edgar"`, `dyn(object.flag) && true`},
		{`request.user == "edgar" && dyn(object.flag)`, `true && dyn(object.flag)`},
		{`(object.a + 1) * 2 == 4 && !(object.b == 1)`, `(object.a + 1) * 2 == 4 && !(object.b == 1)`},
		{`object.a - (object.b - 1) == -(-object.c)`, `object.a - (object.b - 1) == -(-object.c)`},
		{`object.a ? object.b == 1 : (object.c ? true : false)`, `object.a ? object.b == 1 : object.c ? true : false`},
		{`object.s == 'it\'s "x"' // comment`, `object.s == "it's \"x\""`},
		{`operation == "CREATE" && request.verb == "create"`, `operation == "CREATE"`},
		{`namespaceObject.metadata.labels["env"] == request.extra["team"][0]`, `namespaceObject.metadata.labels["env"] == "blue"`},
		{`impersonatedRequest.verb == "get" && request.user == "edgar"`, `impersonatedRequest.verb == "get"`},
		{`dyn(request) == object.r`, `{"apiGroup": dyn(""), "apiVersion": dyn("v1"), "extra": dyn({"team": ["blue"]}), ` +
			`"fieldSelector": dyn({"requirements": dyn([])}), "groups": dyn(["dev", "system:authenticated"]), ` +
			`"labelSelector": dyn({"requirements": dyn([])}), "name": dyn(""), "namespace": dyn("hammer"), "resource": dyn("pods"), ` +
			`"subresource": dyn(""), "time": dyn(timestamp("2026-11-17T08:00:00Z")), "uid": dyn(""), "user": dyn("edgar"), "verb": dyn("create")} == object.r`},
		{`object.d == duration("1h") + duration(request.extra["team"][0] == "blue" ? "1m" : "2m")`,
			`object.d == duration("3660s")`},
		// A literal that the checker would refuse stays a reference.
		{`object.s.matches(request.user + "[")`, `object.s.matches(request.user + "[")`},
	} {
		p := compile(t, When, tc.in)
		caller := edgar()
		caller.Time = time.Date(2026, 11, 17, 8, 0, 0, 0, time.UTC)
		got := p.Text(caller, Deny)
		if got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.in, got, tc.want)
		}
		if _, issues := compiler(t).Compile(got, Options{Stored: true}); issues != nil {
			t.Errorf("%s: text does not compile: %v", got, issues)
		}
	}
}

// A where is shown in terms of the versions that the verb touches (api.md).
func TestWhereText(t *testing.T) {
	for _, tc := range []struct {
		in, verb string
		effect   Effect
		want     string
	}{
		{`resource.spec.storageClassName == "dev"`, "create", Allow, `object.spec.storageClassName == "dev"`},
		{`resource.spec.storageClassName == "dev"`, "delete", Allow, `oldObject.spec.storageClassName == "dev"`},
		{`resource.spec.storageClassName == "dev"`, "deletecollection", Deny, `oldObject.spec.storageClassName == "dev"`},
		{`resource.x == "dev"`, "get", Allow, `object.x == "dev"`},
		{`resource.x == "dev"`, "list", Allow, `object.x == "dev"`},
		{`request.user == "edgar"`, "watch", Allow, `object != null`},
		{`resource.x == "dev"`, "update", Allow, `oldObject.x == "dev" && object.x == "dev"`},
		{`resource.x == "dev"`, "patch", Deny, `oldObject.x == "dev" || object.x == "dev"`},
		{`resource.x == 1 || resource.y == 2`, "update", Allow,
			`(oldObject.x == 1 || oldObject.y == 2) && (object.x == 1 || object.y == 2)`},
		{`resource.owner == request.user`, "create", Allow, `object.owner == "edgar"`},
		{`request.user == "edgar"`, "create", Allow, `object != null`},
		{`request.user == "edgar"`, "update", Allow, `oldObject != null && object != null`},
		{`request.user == "eve"`, "update", Allow, `false`},
		{`request.user == "edgar"`, "update", Deny, `true`},
		{`resource.l.all(object, object == resource.x)`, "create", Allow,
			`object.l.all(object_, object_ == object.x)`},
		{`resource.l.all(object, object.all(object_, object_ == object) && object == resource.x)`, "create", Allow,
			`object.l.all(object__, object__.all(object_, object_ == object__) && object__ == object.x)`},
		{`resource.l.all(resource, resource == 1)`, "create", Allow, `object.l.all(resource, resource == 1)`},
		{`resource.x == 1`, "frob", Allow,
			`(oldObject == null || oldObject.x == 1) && (object == null || object.x == 1) && (oldObject != null || object != null)`},
		{`resource.x == 1`, "frob", Deny,
			`oldObject != null && oldObject.x == 1 || object != null && object.x == 1 || oldObject == null && object == null`},
	} {
		r := edgar()
		r.Verb = tc.verb
		got := compile(t, Where, tc.in).Text(r, tc.effect)
		if got != tc.want {
			t.Errorf("%s (%s %s)\n got %s\nwant %s", tc.in, tc.verb, tc.effect, got, tc.want)
		}
		if _, issues := compiler(t).Compile(got, Options{}); issues != nil {
			t.Errorf("%s: text does not compile: %v", got, issues)
		}
	}
}

// A value that cannot be written as a literal stays a reference.
func TestTextOfStrangeValues(t *testing.T) {
	r := edgar()
	r.User = "bad \xff"
	r.Name = "\u200b\"\\\n\U0001f600\x00"
	if got := compile(t, When, `object.owner == request.user`).Text(r, Allow); got != `object.owner == request.user` {
		t.Errorf("invalid UTF-8: %s", got)
	}
	p := compile(t, When, compile(t, When, `object.name == request.name`).Text(r, Allow))
	ok, err := p.Evaluate(t.Context(), edgar(), Allow, data("CREATE", map[string]any{"name": r.Name}, nil))
	if !ok || err != nil || p.uses.request {
		t.Errorf("%s: %v, %v", p.Source(), ok, err)
	}
}

// CA-1: no text is longer than a condition may be, and what is shown for a
// long one still compiles.
func TestTextLength(t *testing.T) {
	groups := make([]string, 2000)
	for i := range groups {
		groups[i] = strings.Repeat("g", 20)
	}
	r := edgar()
	r.Groups = groups
	if got := compile(t, When, `object.owner in request.groups`).Text(r, Allow); got != `object.owner in request.groups` {
		t.Errorf("long groups: %s", got)
	}
	r.Verb = "update"
	limit := MaxLength - len(whereFrame)
	long := `resource.x == "` + strings.Repeat("x", limit-len(`resource.x == ""`)) + `"`
	p := compile(t, Where, long)
	for _, effect := range []Effect{Allow, Deny} {
		got := p.Text(r, effect)
		if len(got) > MaxLength {
			t.Errorf("%s: %d bytes", effect, len(got))
		}
		if !compiler(t).compiles(got) {
			t.Errorf("%s: does not compile: %.80s…", effect, got)
		}
	}
	if got := All(p, p).Text(r, Allow); len(got) > MaxLength || compiler(t).compiles(got) {
		t.Errorf("two long conditions: %d bytes must be cut, and must not compile", len(got))
	}
}

// The table of macros is that of the environment: a Kubernetes upgrade that
// adds one shows up here.
func TestMacroTable(t *testing.T) {
	seen := map[text.Macro]bool{}
	for _, env := range []*cel.Env{
		compiler(t).envs[When].StoredExpressionsEnv(), compiler(t).envs[When].NewExpressionsEnv(),
	} {
		for _, m := range env.Macros() {
			key := text.Macro{Name: m.Function(), Args: m.ArgCount(), Member: m.IsReceiverStyle()}
			if _, ok := text.Macros[key]; !ok {
				t.Errorf("macro %+v is not in the table: add it with the number of its loop variables", key)
			}
			seen[key] = true
		}
	}
	for key := range text.Macros {
		if !seen[key] {
			t.Errorf("macro %+v is in the table but not in the environment", key)
		}
	}
}
