package authorize

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/power"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// tokenWorld decides requests with tokens.
type tokenWorld struct {
	gate *Gate
	snap *snapshot.Snapshot
	at   time.Time
}

func newTokenWorld(t testing.TB) *tokenWorld {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	compiler := &rulecondition.Compiler{CEL: cel, Cache: expr.NewCache(cel)}
	served := snapshot.Sources{Local: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "secrets", Kind: "Secret", Namespaced: true}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true}}},
	}}.Served()
	w := &tokenWorld{at: time.Unix(1750000100, 0)}
	rules := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compiler.CompileRule, Kinds: served.Kinds(),
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "most"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "create", "update", "delete"}, APIGroups: []string{"*"}, Resources: []string{"configmaps", "secrets", "pods"}}}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "most"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "most"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "edgar"}}}},
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "master"}, Roles: map[string]policyv1alpha1.PolicyRole{"some": {Rules: []policyv1alpha1.PolicyRule{
			{Verbs: []string{"*"}, ResourceKinds: []string{"deployments.apps"}, Where: `resource.metadata.labels["team"] == "a"`}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "master", Namespace: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"some": {RoleName: "some", UserNames: []string{"edgar"}}}}},
	})
	w.snap = &snapshot.Snapshot{Rules: rules, Served: served, Synced: true, Revoked: narrowedtoken.NewRevocations(nil)}
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "token", Authorizer: NewToken(store, narrowedtoken.NewCompiler(compiler.CompileRule), nil)},
		Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)}, Link{Name: "rbac", Authorizer: NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere, Reads: anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}})
	return w
}

// ask decides a request with links on an object. Without links the user has no token.
func (w *tokenWorld) ask(t testing.TB, attrs authorizer.AttributesRecord, links []string, object *unstructured.Unstructured) bool {
	t.Helper()
	attrs.User = w.user(links)
	ctx := requestctx.At(t.Context(), w.snap, w.at)
	v := w.gate.Decide(ctx, attrs)
	if v.Answer == Allowed || v.Answer != Open {
		return v.Answer == Allowed
	}
	data := onObject(attrs, object)
	if n := v.Pass.Narrowing(); n != nil {
		if n.Box.IsNothing() || !(&readsWorld{}).inBox(n.Box, object) || n.Each == nil {
			return !n.Box.IsNothing() && n.Each == nil && (&readsWorld{}).inBox(n.Box, object)
		}
		shown, _ := n.Each.Shows(ctx, data)
		return shown
	}
	return v.Pass.Pending().Resolve(ctx, data).Decision == authorizer.DecisionAllow
}

func (w *tokenWorld) user(links []string) user.Info {
	u := &user.DefaultInfo{Name: "edgar", Groups: []string{user.AllAuthenticated}}
	if links == nil {
		return u
	}
	return &tokenUser{u, &narrowedtoken.Token{Payload: narrowedtoken.Payload{ID: "x", Issued: 1, Expires: w.at.Unix() + 1, User: narrowedtoken.User{Name: "edgar"}}, Texts: links}}
}

func onObject(attrs authorizer.AttributesRecord, object *unstructured.Unstructured) authorizer.ConditionsData {
	kind := schema.GroupVersionKind{Group: attrs.APIGroup, Version: "v1", Kind: "Object"}
	at := schema.GroupVersionResource{Group: attrs.APIGroup, Version: "v1", Resource: attrs.Resource}
	switch attrs.Verb {
	case "create":
		return admission.NewAttributesRecord(object, nil, kind, attrs.Namespace, object.GetName(), at, "", admission.Create, nil, false, nil)
	case "delete":
		return admission.NewAttributesRecord(nil, object, kind, attrs.Namespace, object.GetName(), at, "", admission.Delete, nil, false, nil)
	}
	return admission.NewAttributesRecord(object, object, kind, attrs.Namespace, object.GetName(), at, "", admission.Update, nil, false, nil)
}

// tokenDraw draws links, requests and objects.
type tokenDraw struct{ *rand.Rand }

func draw[T any](d tokenDraw, from ...T) T { return from[d.IntN(len(from))] }

func some[T any](d tokenDraw, from ...T) (list []T) {
	for list == nil {
		for _, one := range from {
			if d.IntN(3) == 0 {
				list = append(list, one)
			}
		}
	}
	return list
}

func (d tokenDraw) link(t testing.TB) string {
	t.Helper()
	l := narrowedtoken.Link{Rules: []accessv1alpha1.TokenRule{}}
	for range 1 + d.IntN(3) {
		r := accessv1alpha1.TokenRule{PolicyRule: policyv1alpha1.PolicyRule{
			Verbs:         some(d, "*", "*", "get", "list", "create", "update", "delete", "-delete"),
			ResourceKinds: some(d, "*", "*", "configmaps", "secrets", "pods", "deployments.apps", "-pods"),
		}}
		switch d.IntN(4) {
		case 0:
			r.Where = draw(d, `resource.metadata.labels["team"] == "a"`, `resource.metadata.?labels[?"team"].orValue("") != "b"`, `resource.metadata.name.startsWith("x")`)
		case 1:
			r.When = draw(d, `request.namespace == "web"`, `object != null && object.metadata.name == "x1"`, `request.verb != "delete"`)
		}
		if d.IntN(3) == 0 {
			r.Namespaces = some(d, "web", "db")
		}
		if d.IntN(4) == 0 {
			r.ResourceNames = []string{draw(d, "x1", "y1")}
		}
		r.Deny = d.IntN(5) == 0
		l.Rules = append(l.Rules, r)
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (d tokenDraw) request() (authorizer.AttributesRecord, *unstructured.Unstructured) {
	a := authorizer.AttributesRecord{Verb: draw(d, "get", "list", "create", "update", "delete"), Resource: draw(d, "configmaps", "secrets", "pods", "deployments"),
		APIVersion: "v1", Namespace: draw(d, "web", "db", "web"), ResourceRequest: true}
	if a.Resource == "deployments" {
		a.APIGroup = "apps"
	}
	name := draw(d, "x1", "y1", "x2")
	if a.Verb != "list" && a.Verb != "create" {
		a.Name = name
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Object", "metadata": map[string]any{"name": name, "namespace": a.Namespace}}}
	if team := draw(d, "", "a", "b"); team != "" {
		o.SetLabels(map[string]string{"team": team})
	}
	return a, o
}

// TestAttenuatedIsLess: what a chain of links allows, every prefix of it and the user without it allow; links in any
// order decide alike; and what is powerful is allowed only if every link names it (TK-4, TK-11).
func TestAttenuatedIsLess(t *testing.T) {
	w := newTokenWorld(t)
	cases, yes, no := 0, 0, 0
	law.Rounds(t, 1500, func(seed int64) int {
		d := tokenDraw{rand.New(rand.NewPCG(uint64(seed), 17))}
		links := []string{}
		for range 1 + d.IntN(3) {
			links = append(links, d.link(t))
		}
		for range 8 {
			attrs, object := d.request()
			whole := w.ask(t, attrs, links, object)
			cases++
			if whole {
				yes++
			} else {
				no++
			}
			say := func() string {
				return fmt.Sprintf("seed %d: %s %s/%s in %s, object %v\nlinks %v", seed, attrs.Verb, attrs.Resource, attrs.Name, attrs.Namespace, object.Object["metadata"], links)
			}
			all := w.ask(t, attrs, nil, object)
			for n := 1; n <= len(links); n++ {
				all = all && w.ask(t, attrs, links[n-1:n], object)
				if prefix := w.ask(t, attrs, links[:n], object); whole && !prefix {
					t.Fatalf("%s\nthe first %d links refuse what all allow", say(), n)
				}
			}
			if whole != all {
				t.Fatalf("%s\nall together: %v, one by one: %v", say(), whole, all)
			}
			mixed := append([]string{}, links...)
			d.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			if other := w.ask(t, attrs, mixed, object); other != whole {
				t.Fatalf("%s\nin another order: %v", say(), other)
			}
			if _, powerful := power.Of(attrs.Verb, attrs.APIGroup, attrs.Resource, ""); powerful && whole && !everyLinkNames(t, links, attrs) {
				t.Fatalf("%s\nit is allowed without being named", say())
			}
		}
		return 8
	})
	t.Logf("%d cases, %d of them allowed", cases, yes)
	if yes < cases/20 || no < cases/20 {
		law.TooFew(t, "%d of %d allowed: the law proves little", yes, cases)
	}
}

// everyLinkNames reports whether every link has an allow rule with the verb and the kind as they are written.
func everyLinkNames(t *testing.T, links []string, attrs authorizer.AttributesRecord) bool {
	t.Helper()
	for _, text := range links {
		l, err := narrowedtoken.DecodeLink([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		kind, named := attrs.Resource, false
		if attrs.APIGroup != "" {
			kind += "." + attrs.APIGroup
		}
		for _, r := range l.Rules {
			verb, resource := false, false
			for _, v := range r.Verbs {
				verb = verb || v == attrs.Verb
			}
			for _, k := range r.ResourceKinds {
				resource = resource || k == kind
			}
			named = named || !r.Deny && verb && resource
		}
		if !named {
			return false
		}
	}
	return true
}

// TestTokensThatDiffer: a request whose token is not that of its user is refused, whoever allows it (TK-3).
func TestTokensThatDiffer(t *testing.T) {
	w := newTokenWorld(t)
	link := `{"rules":[{"verbs":["*"],"resourceKinds":["*"]}]}`
	attrs := asks("get")
	attrs.Name = "x"
	decide := func(holder, carried user.Info) Answer {
		ctx := requestctx.At(t.Context(), w.snap, w.at)
		if n, ok := holder.(requestctx.TokenUser); ok {
			requestctx.From(ctx).Bears(&requestctx.Bearer{User: holder, Token: n.NarrowedToken()})
		}
		asked := attrs
		asked.User = carried
		return w.gate.Decide(ctx, asked).Answer
	}
	with, without, another := w.user([]string{link}), w.user(nil), w.user([]string{link})
	for name, c := range map[string]struct {
		holder, carried user.Info
		want            Answer
	}{
		"both": {with, with, Allowed}, "neither": {without, without, Allowed}, "user only, as CEL asks": {without, with, Allowed},
		"request only": {with, without, Denied}, "another one": {with, another, Denied},
	} {
		if got := decide(c.holder, c.carried); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	unknown := *w.snap
	unknown.Revoked = nil
	asked := attrs
	asked.User = with
	if got := w.gate.Decide(requestctx.At(t.Context(), &unknown, w.at), asked).Answer; got != Denied {
		t.Errorf("before revocations are known: %v", got)
	}
	if got := w.gate.Decide(requestctx.At(t.Context(), w.snap, w.at.Add(time.Hour)), asked).Answer; got != Denied {
		t.Errorf("after its end: %v", got)
	}
}

// BenchmarkToken is what a link adds to a decision (TK-11).
func BenchmarkToken(b *testing.B) {
	w := newTokenWorld(b)
	attrs := asks("get")
	attrs.Name = "x"
	ctx := requestctx.At(context.Background(), w.snap, w.at)
	for name, u := range map[string]user.Info{"without": w.user(nil), "one link": w.user([]string{`{"rules":[{"verbs":["get","list"],"resourceKinds":["configmaps"],"namespaces":["hammer"]}]}`})} {
		b.Run(name, func(b *testing.B) {
			asked := attrs
			asked.User = u
			b.ReportAllocs()
			for b.Loop() {
				if w.gate.Decide(ctx, asked).Answer != Allowed {
					b.Fatal("refused")
				}
			}
		})
	}
}
