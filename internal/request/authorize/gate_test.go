package authorize

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// byVerb allows some verbs without a condition and others on one, and has no opinion on the rest.
type byVerb struct{ allowed, conditional []string }

func (b byVerb) of(verb string) *scripted {
	switch {
	case slices.Contains(b.allowed, verb):
		return &scripted{decision: authorizer.ConditionsAwareDecisionAllow("", nil)}
	case slices.Contains(b.conditional, verb):
		return &scripted{decision: authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[0])})}
	}
	return &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("", nil)}
}

func (b byVerb) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return b.of(a.GetVerb()).Authorize(ctx, a)
}

func (b byVerb) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return b.of(a.GetVerb()).ConditionsAwareAuthorize(ctx, a)
}

func (b byVerb) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return b.of("").EvaluateConditions(ctx, d, data)
}

func gateOf(t *testing.T, answers byVerb) *Gate {
	t.Helper()
	chain, err := NewChain(Link{Name: "test", Authorizer: answers})
	if err != nil {
		t.Fatal(err)
	}
	return NewGate(GateConfig{Chain: chain, Conditional: true, Local: LocalFunc(func(string, string) bool { return true })})
}

// asked is a request as the server knows it, and the check that is made of it.
func asked(verb string) (request.RequestInfo, authorizer.AttributesRecord) {
	return request.RequestInfo{IsResourceRequest: true, Path: "/apis/example.com/v1/namespaces/hammer/widgets/w", Verb: verb, APIGroup: "example.com", APIVersion: "v1",
			Resource: "widgets", Namespace: "hammer", Name: "w"},
		authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, ResourceRequest: true, Path: "/apis/example.com/v1/namespaces/hammer/widgets/w", Verb: verb, APIGroup: "example.com", APIVersion: "v1",
			Resource: "widgets", Namespace: "hammer", Name: "w"}
}

func within(t *testing.T, info *request.RequestInfo) context.Context {
	t.Helper()
	return request.WithRequestInfo(requestctx.With(t.Context(), &snapshot.Snapshot{}), info)
}

// others are checks that are not about the request: each differs in one thing.
var others = map[string]func(*authorizer.AttributesRecord){
	"group":       func(a *authorizer.AttributesRecord) { a.APIGroup = "other.com" },
	"version":     func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" },
	"resource":    func(a *authorizer.AttributesRecord) { a.Resource = "gadgets" },
	"subresource": func(a *authorizer.AttributesRecord) { a.Subresource = "status" },
	"namespace":   func(a *authorizer.AttributesRecord) { a.Namespace = "anvil" },
	"name":        func(a *authorizer.AttributesRecord) { a.Name = "x" },
	"no resource": func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
}

// CA-6: only the check of the request itself fills its slot, and passes on a condition; every other check folds and
// leaves no trace.
func TestGateKnowsTheRequest(t *testing.T) {
	gate := gateOf(t, byVerb{conditional: []string{"update", "patch"}}).AtFilter()
	try := func(name string, change func(*authorizer.AttributesRecord), itself bool) {
		t.Helper()
		info, attrs := asked("update")
		change(&attrs)
		ctx := within(t, &info)
		d, _, _ := gate.Authorize(ctx, attrs)
		if (d == authorizer.DecisionAllow) != itself || (requestctx.From(ctx).Get(requestctx.Request).Pending() != nil) != itself {
			t.Errorf("%s: %v, pending %v", name, d, requestctx.From(ctx).Get(requestctx.Request).Pending())
		}
	}
	try("itself", func(*authorizer.AttributesRecord) {}, true)
	for name, change := range others {
		try(name, change, false)
	}
	try("verb", func(a *authorizer.AttributesRecord) { a.Verb = "patch" }, false)
	try("path", func(a *authorizer.AttributesRecord) { a.Path = "/other" }, false)

	info, attrs := asked("update")
	if d, _, _ := gate.Authorize(request.WithRequestInfo(t.Context(), &info), attrs); d == authorizer.DecisionAllow {
		t.Error("a condition passes without a holder")
	}
	ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
	if d, _, _ := gate.Authorize(ctx, attrs); d == authorizer.DecisionAllow {
		t.Error("a condition passes a request of which nothing is known")
	}
	info.Path, attrs.Path = "", ""
	if d, _, _ := gate.Authorize(within(t, &info), attrs); d == authorizer.DecisionAllow {
		t.Error("a condition passes without a path, as impersonation asks")
	}
}

// CA-8: the create check of an update or patch has a slot of its own; a create of anything else folds.
func TestGateKnowsTheCreateOfAnUpdate(t *testing.T) {
	gate := gateOf(t, byVerb{conditional: []string{"create"}}).InHandlers()
	try := func(name, verb string, change func(*authorizer.AttributesRecord), own bool) {
		t.Helper()
		info, attrs := asked(verb)
		attrs.Verb = "create"
		change(&attrs)
		ctx := within(t, &info)
		d, _, _ := gate.Authorize(ctx, attrs)
		if (d == authorizer.DecisionAllow) != own || (requestctx.From(ctx).Get(requestctx.Create).Pending() != nil) != own || requestctx.From(ctx).Get(requestctx.Request).Pending() != nil {
			t.Errorf("%s of %s: %v", name, verb, d)
		}
	}
	same := func(*authorizer.AttributesRecord) {}
	for verb, own := range map[string]bool{"update": true, "patch": true, "create": false, "get": false, "delete": false} {
		try("create", verb, same, own)
	}
	for name, change := range others {
		try(name, "update", change, false)
	}
	try("another verb", "update", func(a *authorizer.AttributesRecord) { a.Verb = "bind" }, false)
	try("no path", "patch", func(a *authorizer.AttributesRecord) { a.Path = "" }, false)
	info, attrs := asked("update")
	attrs.Verb = "create"
	if d, _, _ := gate.Authorize(request.WithRequestInfo(t.Context(), &info), attrs); d == authorizer.DecisionAllow {
		t.Error("a condition passes without a holder")
	}
}

// CA-9: the second check of a connection is answered by the first one, for this connection only.
func TestGateKnowsTheConnection(t *testing.T) {
	gate := gateOf(t, byVerb{}).InHandlers()
	try := func(name string, first requestctx.Pass, change func(*authorizer.AttributesRecord), want bool) {
		t.Helper()
		info, attrs := asked("get")
		info.APIGroup, info.Resource, info.Subresource = "", "pods", "exec"
		attrs.APIGroup, attrs.Resource, attrs.Subresource, attrs.Verb = "", "pods", "exec", "create"
		change(&attrs)
		ctx := within(t, &info)
		requestctx.From(ctx).Put(requestctx.Connect, attrs, first)
		if d, _, _ := gate.Authorize(ctx, attrs); (d == authorizer.DecisionAllow) != want {
			t.Errorf("%s: %v", name, d)
		}
	}
	same := func(*authorizer.AttributesRecord) {}
	try("decided", requestctx.Allowed(), same, true)
	try("not decided", requestctx.Pass{}, same, false)
	try("another verb", requestctx.Allowed(), func(a *authorizer.AttributesRecord) { a.Verb = "get" }, false)
	try("another path", requestctx.Allowed(), func(a *authorizer.AttributesRecord) { a.Path = "/x" }, false)
	for _, name := range []string{"version", "namespace", "name", "no resource"} {
		try(name, requestctx.Allowed(), others[name], false)
	}
	try("another connection", requestctx.Allowed(), func(a *authorizer.AttributesRecord) { a.Subresource = "attach" }, false)
	try("no connection", requestctx.Allowed(), func(a *authorizer.AttributesRecord) { a.Subresource = "status" }, false)
}

// CA-7, PO-20: an unsafe delete is never made by a caller whose delete depends on the object or is denied, nor while no
// rules are known.
func TestUnsafeDeleteNeedsMore(t *testing.T) {
	rules := ruleset.Build(ruleset.Input{MasterNamespace: "master"})
	for name, c := range map[string]struct {
		chain byVerb
		rules *ruleset.Index
		want  authorizer.Decision
	}{
		"allowed":           {byVerb{allowed: []string{"delete", VerbUnsafeDelete}}, rules, authorizer.DecisionAllow},
		"delete not needed": {byVerb{allowed: []string{VerbUnsafeDelete}}, rules, authorizer.DecisionAllow},
		"under a condition": {byVerb{allowed: []string{VerbUnsafeDelete}, conditional: []string{"delete"}}, rules, authorizer.DecisionDeny},
		"no rules known":    {byVerb{allowed: []string{"delete", VerbUnsafeDelete}}, nil, authorizer.DecisionDeny},
	} {
		info, attrs := asked("delete")
		attrs.Verb = VerbUnsafeDelete
		ctx := within(t, &info)
		requestctx.From(ctx).Snapshot = &snapshot.Snapshot{Synced: true, Rules: c.rules}
		if d, _, _ := gateOf(t, c.chain).InHandlers().Authorize(ctx, attrs); d != c.want {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// FP-6: who has granular may try a write of fields, and nothing else.
func TestGateOpensFields(t *testing.T) {
	table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}, {Name: "widgets/token", Kind: "Token"}}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}, {Name: "pods/exec", Kind: "Pod"}}}}}.Served()
	granular, conditionally := byVerb{allowed: []string{fieldperm.Verb}}, byVerb{conditional: []string{fieldperm.Verb}}
	for name, c := range map[string]struct {
		answers byVerb
		verb    string
		change  func(*Gate, *snapshot.Snapshot, *request.RequestInfo)
		opens   bool
	}{
		"update":               {granular, "update", nil, true},
		"patch":                {granular, "patch", nil, true},
		"create":               {granular, "create", nil, true},
		"delete":               {granular, "delete", nil, false},
		"get":                  {granular, "get", nil, false},
		"without granular":     {byVerb{}, "update", nil, false},
		"granular conditional": {conditionally, "update", nil, true},
		"no conditions":        {conditionally, "update", func(g *Gate, _ *snapshot.Snapshot, _ *request.RequestInfo) { g.conditional = false }, false},
		"served elsewhere": {granular, "update", func(g *Gate, _ *snapshot.Snapshot, _ *request.RequestInfo) {
			g.local = LocalFunc(func(string, string) bool { return false })
		}, false},
		"served here": {granular, "update", func(g *Gate, _ *snapshot.Snapshot, _ *request.RequestInfo) {
			g.local = LocalFunc(func(string, string) bool { return true })
		}, true},
		"the system is off": {granular, "update", func(_ *Gate, s *snapshot.Snapshot, _ *request.RequestInfo) { s.Fields = nil }, false},
		"not served":        {granular, "update", func(_ *Gate, _ *snapshot.Snapshot, i *request.RequestInfo) { i.Resource = "gadgets" }, false},
		"no fields":         {granular, "update", func(_ *Gate, _ *snapshot.Snapshot, i *request.RequestInfo) { i.Subresource = "token" }, false},
		"a connection": {granular, "create", func(_ *Gate, _ *snapshot.Snapshot, i *request.RequestInfo) {
			i.APIGroup, i.Resource, i.Subresource = "", "pods", "exec"
		}, false},
		"no resource": {granular, "update", func(_ *Gate, _ *snapshot.Snapshot, i *request.RequestInfo) { i.IsResourceRequest = false }, false},
	} {
		gate, snap := gateOf(t, c.answers), &snapshot.Snapshot{Fields: table, Served: served}
		info, attrs := asked(c.verb)
		if c.change != nil {
			c.change(gate, snap, &info)
		}
		attrs.APIGroup, attrs.Resource, attrs.Subresource, attrs.ResourceRequest = info.APIGroup, info.Resource, info.Subresource, info.IsResourceRequest
		ctx := request.WithRequestInfo(requestctx.With(t.Context(), snap), &info)
		d, _, _ := gate.AtFilter().Authorize(ctx, attrs)
		if slot := requestctx.From(ctx).Get(requestctx.Request); (d == authorizer.DecisionAllow) != c.opens || slot.IsGranular() != c.opens || slot.IsAllowed() {
			t.Errorf("%s: %v, %+v", name, d, slot)
		}
	}
	if HasFields(nil, authorizer.AttributesRecord{Verb: "update", ResourceRequest: true}) {
		t.Error("fields without a snapshot")
	}
}

// CA-6: a condition passes only where admission will see an object.
func TestHonours(t *testing.T) {
	for _, c := range []struct {
		verb, resource, sub string
		want                error
	}{
		{"create", "pods", "", nil}, {"update", "pods", "", nil}, {"patch", "pods", "", nil}, {"delete", "pods", "", nil}, {"deletecollection", "pods", "", nil},
		{fieldperm.Verb, "pods", "", nil}, {fieldperm.VerbPrefix + "x", "pods", "", nil}, {"get", "pods", "exec", nil},
		{"get", "pods", "", errGet}, {"list", "pods", "", errSelect}, {"watch", "pods", "", errSelect}, {"bind", "pods", "", errNoObject}, {"create", "", "", errNoObject},
	} {
		attrs := authorizer.AttributesRecord{Verb: c.verb, APIVersion: "v1", Resource: c.resource, Subresource: c.sub, ResourceRequest: true}
		if got := NewGate(GateConfig{Local: LocalFunc(func(string, string) bool { return true })}).Honours(attrs); !errors.Is(got, c.want) {
			t.Errorf("%s %s/%s: %v", c.verb, c.resource, c.sub, got)
		}
		for _, change := range []func(){func() { attrs.APIVersion = "" }, func() { attrs.APIVersion, attrs.ResourceRequest = "v1", false }} {
			if change(); NewGate(GateConfig{Local: LocalFunc(func(string, string) bool { return true })}).Honours(attrs) == nil {
				t.Errorf("%+v passes", attrs)
			}
		}
	}
	elsewhere := NewGate(GateConfig{Local: LocalFunc(func(group, version string) bool { return group != "other" || version != "v1" })})
	for group, want := range map[string]error{"other": errProxied, "": nil} {
		if got := elsewhere.Honours(authorizer.AttributesRecord{Verb: "create", APIGroup: group, APIVersion: "v1", Resource: "pods", ResourceRequest: true}); !errors.Is(got, want) {
			t.Errorf("group %q: %v", group, got)
		}
	}
}

// CA-1: a question without a request is answered with the zero value, which denies; a decision that does not exist is a
// deny.
func TestGateFailsClosed(t *testing.T) {
	gate := gateOf(t, byVerb{allowed: []string{"create"}})
	ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
	if out := gate.Ask(ctx, requestctx.From(ctx), "create", nil); out.Decision != authorizer.DecisionDeny {
		t.Errorf("a question about nothing: %v", out)
	}
	if gate.Connect(ctx, requestctx.From(ctx), nil); requestctx.From(ctx).Get(requestctx.Connect).IsAllowed() {
		t.Error("a connection of nothing is allowed")
	}
	_, attrs := asked("get")
	requestctx.From(ctx).Put(requestctx.Request, attrs, requestctx.Allowed())
	if out := gate.Connect(ctx, requestctx.From(ctx), nil); out.Decision != authorizer.DecisionAllow || !requestctx.From(ctx).Get(requestctx.Connect).IsAllowed() {
		t.Errorf("a connection that may be created: %v", out)
	}
	denied := gateOf(t, byVerb{})
	again := requestctx.With(t.Context(), &snapshot.Snapshot{})
	requestctx.From(again).Put(requestctx.Request, attrs, requestctx.Allowed())
	if out := denied.Connect(again, requestctx.From(again), nil); out.Decision == authorizer.DecisionAllow || requestctx.From(again).Get(requestctx.Connect).IsAllowed() {
		t.Errorf("a connection that nobody allows: %v", out)
	}
	for d, want := range map[authorizer.Decision]string{authorizer.DecisionAllow: "Allow", authorizer.DecisionNoOpinion: "NoOpinion", authorizer.DecisionDeny: "Deny", 99: "Deny"} {
		if got := Spell(d); got != want {
			t.Errorf("%v is called %s", d, got)
		}
	}
}
