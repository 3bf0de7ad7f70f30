package authorize

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/power"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// TestLinksAreRules: a link of a token allows what a role of Policy with the same rules would allow somebody who has
// nothing else, of every object, in reads as in writes (TK-4). The user of the token may do everything.
func TestLinksAreRules(t *testing.T) {
	w := newTokenWorld(t)
	compile := compilerOf(t)
	all := *w.snap
	all.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compile, Kinds: w.snap.Served.Kinds(), Policies: []*policyv1alpha1.Policy{policyIn("master", policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}})},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{bindingIn("master")}})
	yes, no, conditional := 0, 0, 0
	law.Rounds(t, 400, func(seed int64) int {
		d := tokenDraw{rand.New(rand.NewPCG(uint64(seed), 23))}
		text := d.link(t)
		link, err := narrowedtoken.DecodeLink([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			attrs, object := d.request()
			if attrs.Resource != "deployments" {
				attrs.Resource = "configmaps"
			}
			if _, powerful := power.Of(attrs.Verb, attrs.APIGroup, attrs.Resource, ""); powerful {
				continue // a wildcard of a link does not cover it, and one of a role does
			}
			var rules []policyv1alpha1.PolicyRule
			for _, r := range link.Rules {
				if len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, attrs.Namespace) {
					rules = append(rules, r.PolicyRule)
				}
			}
			other := all
			other.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compile, Kinds: w.snap.Served.Kinds(), Policies: []*policyv1alpha1.Policy{policyIn("master", rules...)}, PolicyBindings: []*policyv1alpha1.PolicyBinding{bindingIn("master")}})
			asked := attrs
			asked.User = w.user(nil)
			ctx := requestctx.At(t.Context(), &other, w.at)
			v := w.gate.Chain.Decide(ctx, asked)
			want := v.Decision == authorizer.DecisionAllow
			if v.Pending != nil {
				conditional++
				want = v.Pending.Resolve(ctx, onObject(attrs, object)).Decision == authorizer.DecisionAllow
			}
			was := w.snap
			w.snap = &all
			got := w.ask(t, attrs, []string{text}, object)
			w.snap = was
			if got != want {
				t.Fatalf("seed %d: %s %s/%s in %s, object %v\nlink %s\nby the link %v, by the rules %v (%s)", seed, attrs.Verb, attrs.Resource, attrs.Name, attrs.Namespace, object.Object["metadata"], text, got, want, v.Reason)
			}
			if got {
				yes++
			} else {
				no++
			}
		}
		return 8
	})
	t.Logf("%d allowed, %d not, %d under conditions", yes, no, conditional)
	if yes < 300 || no < 300 || conditional < 300 {
		law.TooFew(t, "%d allowed, %d not, %d under conditions: the law proves little", yes, no, conditional)
	}
}

func bindingIn(namespace string) *policyv1alpha1.PolicyBinding {
	return &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}}
}

// linkOf is a link with these rules.
func linkOf(t *testing.T, description string, rules ...policyv1alpha1.PolicyRule) string {
	t.Helper()
	l := narrowedtoken.Link{Description: description}
	for _, r := range rules {
		l.Rules = append(l.Rules, accessv1alpha1.TokenRule{PolicyRule: r})
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var anything = policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}

// TK-3, TK-11: a refusal names the link that refuses, by its number and its description, and says what a wildcard does
// not cover. A token without links, with too many, or with one that cannot be read allows nothing.
func TestTokensRefuseByName(t *testing.T) {
	w := newTokenWorld(t)
	open := linkOf(t, "", anything)
	reads := linkOf(t, "reads", policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}})
	only := linkOf(t, "mine", policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["team"] == "a"`})
	secret := func(a *authorizer.AttributesRecord) { a.Resource = "secrets" }
	status := func(a *authorizer.AttributesRecord) { a.Resource, a.Subresource, a.Verb = "pods", "exec", "create" }
	same := func(*authorizer.AttributesRecord) {}
	for name, c := range map[string]struct {
		links  []string
		change func(*authorizer.AttributesRecord)
		want   Answer
		says   string
	}{
		"a link that allows it":         {[]string{open}, same, Allowed, ""},
		"as many links as there can be": {slices.Repeat([]string{open}, narrowedtoken.MaxLinks), same, Allowed, ""},
		"one more":                      {slices.Repeat([]string{open}, narrowedtoken.MaxLinks+1), same, Denied, "it has no links, or too many"},
		"no links":                      {[]string{}, same, Denied, "it has no links, or too many"},
		"the first refuses":             {[]string{reads, open}, same, Denied, "your token does not allow it: link 1, *reads*"},
		"the second refuses":            {[]string{open, reads}, same, Denied, "your token does not allow it: link 2, *reads*"},
		"one that cannot be read":       {[]string{open, "{"}, same, Denied, "your token does not allow it: link 2 cannot be read"},
		"a wildcard, and power":         {[]string{open}, secret, Denied, "link 1 has a wildcard, which does not cover get secrets: with it, one can "},
		"a wildcard, and a connection":  {[]string{open}, status, Denied, "link 1 has a wildcard, which does not cover create pods/exec: with it, one can "},
		"an object that may be":         {[]string{only}, func(a *authorizer.AttributesRecord) { a.Verb = "update" }, Open, ""},
	} {
		attrs := asks("get")
		attrs.Name = "x"
		c.change(&attrs)
		attrs.User = w.user(c.links)
		v := w.gate.Decide(requestctx.At(t.Context(), w.snap, w.at), attrs)
		if v.Answer != c.want || c.says != "" && !strings.Contains(v.Reason, c.says) || strings.Contains(v.Reason, "wildcard") != strings.Contains(c.says, "wildcard") {
			t.Errorf("%s: %v, %q", name, v.Answer, v.Reason)
		}
	}
	// Where no object can be looked at, a link that allows some refuses.
	tier := NewToken(snapshot.NewStore(), narrowedtoken.NewCompiler(compilerOf(t)), nil)
	for links, want := range map[string]authorizer.Decision{open: authorizer.DecisionNoOpinion, only: authorizer.DecisionDeny, reads: authorizer.DecisionDeny} {
		attrs := asks("update")
		attrs.User = w.user([]string{links})
		ctx := requestctx.At(t.Context(), w.snap, w.at)
		got, reason, _ := tier.Authorize(ctx, attrs)
		if got != want || (links == only) != strings.Contains(reason, "it allows some objects, and here none can be looked at") {
			t.Errorf("%s: %v, %q", links, got, reason)
		}
		d := tier.ConditionsAwareAuthorize(ctx, attrs)
		if d.IsUnconditional() == (links == only) {
			t.Errorf("%s: %v", links, d)
		}
		for team, decision := range map[string]authorizer.Decision{"a": authorizer.DecisionNoOpinion, "b": authorizer.DecisionDeny} {
			o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": team}}}}
			if got, _, _ := tier.EvaluateConditions(ctx, d, onObject(attrs, o)); links == only && got != decision {
				t.Errorf("team %s: %v", team, got)
			}
		}
	}
	before := *w.snap
	before.Served = nil
	attrs := asks("get")
	attrs.User = w.user([]string{open})
	if v := w.gate.Decide(requestctx.At(t.Context(), &before, w.at), attrs); v.Answer != Denied {
		t.Errorf("before anything is known: %v", v.Answer)
	}
}

// TK-3, CA-10: what is shown of a link's condition says which link it is.
func TestConditionsOfLinks(t *testing.T) {
	one := &linkCondition{number: 2, text: "a", rules: &narrowedtoken.Link{Description: "mine"}}
	other := &linkCondition{number: 3, text: "a", rules: &narrowedtoken.Link{}}
	if one.GetID() == other.GetID() || !strings.Contains(one.GetCondition(), "link 2") || one.GetDescription() != "mine" || one.GetType() == "" || strings.Contains(other.refusal(), "*") {
		t.Errorf("%s, %s, %s", one.GetID(), one.GetCondition(), other.refusal())
	}
}

// TK-6: a token is over at its end, when it is revoked, when what it was bound to is gone, and while nobody knows the
// time.
func TestTokensThatAreOver(t *testing.T) {
	w := newTokenWorld(t)
	end := time.Unix(w.at.Unix()+1, 0)
	gone := boundTo2{errors.New("the pod is gone")}
	for name, c := range map[string]struct {
		at    time.Time
		clock time.Time
		bound Bound
		isTo  *narrowedtoken.Bound
		want  string
	}{
		"good": {w.at, time.Time{}, gone, nil, ""}, "just before its end": {end.Add(-time.Nanosecond), time.Time{}, gone, nil, ""}, "at its end": {end, time.Time{}, gone, nil, "your token ended 0s ago"},
		"afterwards": {end.Add(time.Minute), time.Time{}, gone, nil, "your token ended 1m0s ago: ask for a new one"}, "at no known time": {time.Time{}, time.Time{}, gone, nil, "while the server does not know the time"},
		"outside of requests": {time.Time{}, w.at, gone, nil, ""}, "outside of requests, afterwards": {time.Time{}, end, gone, nil, "your token ended"},
		"bound to what is gone": {w.at, time.Time{}, gone, &narrowedtoken.Bound{}, "your token is over: the pod is gone"}, "bound to what is there": {w.at, time.Time{}, boundTo2{}, &narrowedtoken.Bound{}, ""},
	} {
		tier := NewToken(snapshot.NewStoreWith(stopped(c.clock)), nil, c.bound)
		token := &narrowedtoken.Token{Payload: narrowedtoken.Payload{ID: "x", Issued: 1, Expires: end.Unix(), Bound: c.isTo}}
		ctx := requestctx.At(t.Context(), w.snap, c.at)
		if c.at.IsZero() {
			ctx = requestctx.With(t.Context(), w.snap)
		}
		got := tier.Ended(ctx, token)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	unknown := *w.snap
	unknown.Revoked = nil
	if got := NewToken(snapshot.NewStore(), nil, nil).Ended(requestctx.At(t.Context(), &unknown, w.at), &narrowedtoken.Token{Payload: narrowedtoken.Payload{Expires: end.Unix()}}); got != "your token is revoked" {
		t.Errorf("before revocations are known: %q", got)
	}
}

type boundTo2 struct{ err error }

func (b boundTo2) Check(context.Context, *narrowedtoken.Bound) error { return b.err }

// TK-3: the user of a request carries the token that it came with, also where impersonation has replaced the user.
// Nobody gets a second one, and nobody none.
func TestWhoCarriesAToken(t *testing.T) {
	w := newTokenWorld(t)
	came := &narrowedtoken.Token{Texts: []string{"x"}}
	plain, own := w.user(nil), w.user([]string{"y"})
	for name, c := range map[string]struct {
		bears *narrowedtoken.Token
		user  user.Info
		want  *narrowedtoken.Token
	}{
		"no token": {nil, plain, nil}, "no token, but the user has one": {nil, own, own.(requestctx.TokenUser).NarrowedToken()}, "a token": {came, plain, came},
		"a token, and the user has one": {came, own, own.(requestctx.TokenUser).NarrowedToken()}, "nobody": {came, nil, nil},
	} {
		ctx := requestctx.With(t.Context(), w.snap)
		if c.bears != nil {
			requestctx.From(ctx).Bears(&requestctx.Bearer{Token: c.bears})
		}
		attrs := asks("get")
		attrs.User = c.user
		got := carrying(ctx, attrs).GetUser()
		token, _ := carried(got)
		if token != c.want || (got == nil) != (c.user == nil) || got != nil && got.GetName() != c.user.GetName() {
			t.Errorf("%s: %v carries %v", name, got, token)
		}
	}
}

// HF-5: a condition of a link that may read a hidden field allows nothing of the resource: which objects it lets
// through would tell the field. The same holds for the namespace of the object.
func TestLinksReadNothingHidden(t *testing.T) {
	hide := func(resource, field string) *fieldperm.Table {
		table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Spec: policyv1alpha1.FieldPermissionSpec{
			Resources: []string{resource}, Field: field, Permission: "example.com/secret", ReadExclusive: true}}}})
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		return table
	}
	none, _ := fieldperm.New(fieldperm.Config{})
	w := newTokenWorld(t)
	for name, c := range map[string]struct {
		fields      *fieldperm.Table
		where, when string
		refused     bool
	}{
		"nothing is hidden":            {none, `resource.data.k == "v"`, "", false},
		"what it reads":                {hide("configmaps", ".data[k]"), `resource.data.k == "v"`, "", true},
		"what it reads by when":        {hide("configmaps", ".data[k]"), "", `object.data.k == "v"`, true},
		"what it does not read":        {hide("configmaps", ".data[other]"), `resource.metadata.labels["a"] == "b"`, "", false},
		"of another resource":          {hide("secrets", ".data[k]"), `resource.data.k == "v"`, "", false},
		"of the namespace":             {hide("namespaces", ".metadata.annotations[note]"), "", `namespaceObject.metadata.annotations["note"] == "x"`, true},
		"of the namespace, not read":   {hide("namespaces", ".metadata.annotations[note]"), `resource.data.k == "v"`, "", false},
		"of the namespace, not of it":  {hide("namespaces", ".metadata.annotations[note]"), `resource.metadata.annotations["note"] == "x"`, "", false},
		"in a rule that denies":        {hide("configmaps", ".data[k]"), "deny", "", true},
		"a rule that is about nothing": {hide("configmaps", ".data[k]"), "", `request.user == "eve"`, true}, // for the link refuses anyway
	} {
		rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}, Where: c.where, When: c.when}}
		if c.where == "deny" {
			rules = []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}}, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}, Where: `resource.data.k == "v"`}}
		}
		snap := *w.snap
		snap.Fields = c.fields
		attrs := asks("update")
		attrs.User = w.user([]string{linkOf(t, "", rules...)})
		v := w.gate.Decide(requestctx.At(t.Context(), &snap, w.at), attrs)
		if (v.Answer == Denied) != c.refused || c.refused && c.when != `request.user == "eve"` && !strings.Contains(v.Reason, "which is hidden") {
			t.Errorf("%s: %v, %q", name, v.Answer, v.Reason)
		}
	}
}

// TK-3: a read by a token shows of what others allow what every link allows; what others refuse stays refused, and
// where nobody can be asked about an object, the link refuses.
func TestReadsWithinATokens(t *testing.T) {
	w := newTokenWorld(t)
	link := linkOf(t, "", policyv1alpha1.PolicyRule{Verbs: []string{"get", "list"}, ResourceKinds: []string{"configmaps", "deployments.apps"}, Where: `resource.metadata.labels["team"] == "a"`})
	selectorsOnly := ReadsFunc(func(authorizer.Attributes) error { return nil })
	for name, c := range map[string]struct {
		verb, resource string
		reads          Reads
		user           string
		want           Answer
	}{
		"a list": {"list", "configmaps", w.gate.reading, "edgar", Open}, "a get": {"get", "configmaps", w.gate.reading, "edgar", Open}, "a list of what others narrow": {"list", "deployments", w.gate.reading, "edgar", Open},
		"a list that others refuse": {"list", "configmaps", w.gate.reading, "eve", Unanswered}, "a get that others refuse": {"get", "configmaps", w.gate.reading, "eve", Unanswered},
		"nobody to ask": {"list", "configmaps", selectorsOnly, "edgar", Denied}, "no reads under conditions": {"list", "configmaps", nil, "edgar", Denied},
	} {
		gate := *w.gate
		gate.reading = c.reads
		attrs := asks(c.verb)
		if attrs.Resource = c.resource; c.resource == "deployments" {
			attrs.APIGroup = "apps"
		}
		u := w.user([]string{link})
		if c.user != "edgar" {
			u = &tokenUser{&user.DefaultInfo{Name: c.user}, u.(requestctx.TokenUser).NarrowedToken()}
		}
		attrs.User = u
		v := gate.Decide(requestctx.At(t.Context(), w.snap, w.at), attrs)
		if v.Answer != c.want {
			t.Errorf("%s: %v (%s), want %v", name, v.Answer, v.Reason, c.want)
		}
		n := v.Pass.Narrowing()
		if (n != nil) != (c.want == Open && c.verb == "list") || n != nil && (n.Each == nil || n.Basis != nil || !slices.IsSorted(n.Rules) || len(n.Rules) == 0) {
			t.Errorf("%s: %+v", name, n)
		}
		if n != nil && len(n.Rules) != map[string]int{"configmaps": 1, "deployments": 2}[c.resource] {
			t.Errorf("%s: by %v", name, n.Rules)
		}
	}
}

// shows is what others show.
type shows struct {
	shown, at, known bool
	place            bool
	err              error
	view             byte
}

func (s shows) Shows(context.Context, authorizer.ConditionsData) (bool, error) { return s.shown, s.err }
func (s shows) View() requestctx.View                                          { return requestctx.View{s.view} }
func (s shows) At(string, string) (shown, known bool)                          { return s.at, s.known }
func (s shows) LooksAtNamespace() bool                                         { return s.place }

// TK-3, RD-7: what a token leaves of a list is part of what others show. Its view differs with theirs, with the links,
// and with what these look at, and with nothing else.
func TestBoundedReads(t *testing.T) {
	w := newTokenWorld(t)
	tier := NewToken(snapshot.NewStore(), narrowedtoken.NewCompiler(compilerOf(t)), nil)
	bound := func(who string, others requestctx.Each, links ...string) *bounded {
		t.Helper()
		attrs := asks("list")
		attrs.User = &tokenUser{&user.DefaultInfo{Name: who}, w.user(links).(requestctx.TokenUser).NarrowedToken()}
		_, set := tier.open(requestctx.At(t.Context(), w.snap, w.at), attrs, lists{})
		if set == nil || !set.limits {
			t.Fatalf("%v: %+v", links, set)
		}
		return boundTo(others, set, w.snap.Served)
	}
	rule := func(deny bool, where, when string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}, Where: where, When: when}
	}
	const teamA, teamB, place, caller = `resource.metadata.labels["team"] == "a"`, `resource.metadata.labels["team"] == "b"`, `namespaceObject.metadata.labels["env"] == "dev"`, `resource.metadata.labels["team"] == request.user`
	a, b := linkOf(t, "", rule(false, teamA, "")), linkOf(t, "", rule(false, teamB, ""))
	notA := linkOf(t, "", rule(false, "", ""), rule(true, teamA, ""))
	views := map[string]requestctx.View{
		"a": bound("edgar", nil, a).View(), "b": bound("edgar", nil, b).View(), "both": bound("edgar", nil, a, b).View(), "not a": bound("edgar", nil, notA).View(), "a twice": bound("edgar", nil, a, a).View(),
		"a or b": bound("edgar", nil, linkOf(t, "", rule(false, teamA, ""), rule(false, teamB, ""))).View(), "a of others": bound("edgar", shows{view: 1}, a).View(), "a of further ones": bound("edgar", shows{view: 2}, a).View(),
		"edgar's": bound("edgar", nil, linkOf(t, "", rule(false, caller, ""))).View(), "eve's": bound("eve", nil, linkOf(t, "", rule(false, caller, ""))).View(),
	}
	seen := map[requestctx.View]string{}
	for name, v := range views {
		if other, ok := seen[v]; ok {
			t.Errorf("%q and %q are taken for the same", name, other)
		}
		seen[v] = name
	}
	if bound("eve", nil, a).View() != views["a"] || bound("edgar", nil, a).View() != views["a"] {
		t.Error("who asks is not looked at, and counts")
	}
	for name, c := range map[string]struct {
		b    *bounded
		want bool
	}{"objects": {bound("edgar", nil, a), false}, "places": {bound("edgar", nil, linkOf(t, "", rule(false, "", place))), true}, "places of others": {bound("edgar", shows{place: true}, a), true}, "others": {bound("edgar", shows{}, a), false},
		"places in a deny": {bound("edgar", nil, linkOf(t, "", rule(false, "", ""), rule(true, "", place)), a), true}} {
		if c.b.LooksAtNamespace() != c.want {
			t.Errorf("%s: looks at namespaces: %v", name, !c.want)
		}
	}
	object := func(team string) authorizer.ConditionsData {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "o", "labels": map[string]any{"team": team}}}}
		if team == "" {
			o.SetLabels(nil)
		}
		return state(o)
	}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		b     *bounded
		team  string
		shown bool
		says  string
	}{
		"allowed": {bound("edgar", nil, a), "a", true, ""}, "not allowed": {bound("edgar", nil, a), "b", false, ""}, "by both": {bound("edgar", nil, a, b), "a", false, ""}, "what fails": {bound("edgar", nil, b, a), "", false, "link 1 of the token: "},
		"denied": {bound("edgar", nil, notA), "a", false, ""}, "not denied": {bound("edgar", nil, notA), "b", true, ""}, "a deny that fails": {bound("edgar", nil, notA), "", false, ""},
		"others show it": {bound("edgar", shows{shown: true}, a), "a", true, ""}, "others do not": {bound("edgar", shows{}, a), "a", false, ""}, "others fail": {bound("edgar", shows{err: boom}, a), "a", false, "boom"}, "others show it, the link does not": {bound("edgar", shows{shown: true}, a), "b", false, ""},
		"no links": {&bounded{}, "a", false, "no links"}, "no links, and others": {&bounded{others: shows{shown: true}}, "a", false, "no links"},
	} {
		shown, err := c.b.Shows(t.Context(), object(c.team))
		if shown != c.shown || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, shown, err)
		}
	}
	for name, c := range map[string]struct {
		others requestctx.Each
		known  bool
	}{"nobody else": {nil, false}, "others do not know": {shows{}, false}, "others show it": {shows{at: true, known: true}, false}, "others do not show it": {shows{known: true}, true}} {
		if shown, known := bound("edgar", c.others, a).At("ns", "n"); shown || known != c.known {
			t.Errorf("%s: shown %v, known %v", name, shown, known)
		}
	}
}

// TK-3: in a version of an object that a rule of a link cannot be asked about, the rule allows nothing, and a deny
// denies everything.
func TestLinksInOtherVersions(t *testing.T) {
	for name, c := range map[string]struct {
		deny  bool
		read  string
		shown bool
	}{"its version": {false, "v2", true}, "another": {false, "v1", false}, "a deny, its version": {true, "v2", true}, "a deny, another": {true, "v1", false}} {
		served := differingServed()
		w := newTokenWorld(t)
		snap := *w.snap
		snap.Served = served
		rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"list"}, ResourceKinds: []string{"widgets.example.com"}, Where: `resource.metadata.labels["team"] == "a"`}}
		if c.deny {
			rules = []policyv1alpha1.PolicyRule{{Verbs: []string{"list"}, ResourceKinds: []string{"widgets.example.com"}}, {Deny: true, Verbs: []string{"list"}, ResourceKinds: []string{"widgets.example.com"}, Where: `resource.metadata.labels["team"] == "b"`}}
		}
		attrs := asks("list")
		attrs.APIGroup, attrs.APIVersion, attrs.Resource, attrs.User = "example.com", c.read, "widgets", w.user([]string{linkOf(t, "", rules...)})
		_, set := NewToken(snapshot.NewStore(), narrowedtoken.NewCompiler(compilerOf(t)), nil).open(requestctx.At(t.Context(), &snap, w.at), attrs, lists{})
		if set == nil {
			t.Fatalf("%s: decided", name)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + c.read, "kind": "Widget", "metadata": map[string]any{"name": "o", "labels": map[string]any{"team": "a"}}}}
		if shown, err := boundTo(nil, set, served).Shows(t.Context(), state(o)); shown != c.shown {
			t.Errorf("%s: shown %v, %v", name, shown, err)
		}
	}
}
