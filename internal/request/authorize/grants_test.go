package authorize

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// loud is the context of a request whose audit event is kept.
func loud(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	ctx = audit.WithAuditContext(ctx)
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	return ctx
}

func noted(ctx context.Context, key string) string {
	value, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(key)
	return value
}

// inA is a request about a config map of namespace a.
func inA(verb string) authorizer.AttributesRecord {
	attrs := asks(verb)
	attrs.Namespace, attrs.Name = "a", "o1"
	return attrs
}

// TM-11: a grant allows what its role allows, to whom it was given, where and while it holds, and nothing else. What
// denies ahead of it wins.
func TestGrants(t *testing.T) {
	compile := compilerOf(t)
	granted := newUnionWorld(t, compile).grant("a", readMaps)
	someOf := newUnionWorld(t, compile).grant("a", named2(readMaps, "o1"))
	denied := newUnionWorld(t, compile).grant("a", readMaps)
	deny := readRule("configmaps", "", "")
	deny.Deny = true
	denied.policy("a", deny)
	minute := unionNoon.Add(time.Minute)
	for name, c := range map[string]struct {
		world  *unionWorld
		change func(*authorizer.AttributesRecord)
		at     time.Time
		want   Answer
	}{
		"granted":          {granted, func(*authorizer.AttributesRecord) {}, minute, Allowed},
		"another verb":     {granted, func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, minute, Unanswered},
		"another kind":     {granted, func(a *authorizer.AttributesRecord) { a.Resource = "secrets" }, minute, Unanswered},
		"another place":    {granted, func(a *authorizer.AttributesRecord) { a.Namespace = "b" }, minute, Unanswered},
		"another user":     {granted, func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "eve"} }, minute, Unanswered},
		"before":           {granted, func(*authorizer.AttributesRecord) {}, unionNoon.Add(-time.Minute), Unanswered},
		"afterwards":       {granted, func(*authorizer.AttributesRecord) {}, unionNoon.Add(time.Hour), Unanswered},
		"at no known time": {granted, func(*authorizer.AttributesRecord) {}, time.Time{}, Unanswered},
		"one name":         {someOf, func(*authorizer.AttributesRecord) {}, minute, Allowed},
		"another name":     {someOf, func(a *authorizer.AttributesRecord) { a.Name = "o2" }, minute, Unanswered},
		"a token": {granted, func(a *authorizer.AttributesRecord) {
			a.User = &tokenUser{a.User, &narrowedtoken.Token{Payload: narrowedtoken.Payload{Grants: true}}}
		}, minute, Allowed},
		"a token that was asked for without": {granted, func(a *authorizer.AttributesRecord) { a.User = &tokenUser{a.User, &narrowedtoken.Token{}} }, minute, Unanswered},
		"links by value": {granted, func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "edgar", Extra: map[string][]string{ExtraLinks: {"x"}}}
		}, minute, Unanswered},
		"a deny ahead of it": {denied, func(*authorizer.AttributesRecord) {}, minute, Denied},
	} {
		attrs := inA("get")
		c.change(&attrs)
		v := c.world.gate.Decide(requestctx.At(t.Context(), c.world.snapshot(), c.at), attrs)
		if v.Answer != c.want || (v.By == "access") != (c.want == Allowed) {
			t.Errorf("%s: %v by %q (%q)", name, v.Answer, v.By, v.Reason)
		}
		if c.want == Allowed && !strings.Contains(v.Reason, "g0") {
			t.Errorf("%s: the reason does not name the request: %q", name, v.Reason)
		}
	}
}

// TM-11: who is listed by a rule may ask for what it grants, and is told so, by the rule if that is the question.
func TestWhoMayAsk(t *testing.T) {
	w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
	snap := w.snapshot()
	asking := authorizer.AttributesRecord{Verb: "create", APIGroup: accessv1alpha1.GroupName, APIVersion: "v1alpha1", Resource: "accessrequests", Namespace: "a", ResourceRequest: true}
	may := authorizer.AttributesRecord{Verb: access.VerbRequest, APIGroup: accessv1alpha1.GroupName, APIVersion: "v1alpha1", Resource: "accessrules", Name: "g0", ResourceRequest: true}
	unknown := may
	unknown.Name = "g9"
	for _, c := range []struct {
		attrs  authorizer.AttributesRecord
		who    string
		reason string
	}{
		{asking, "edgar", "an AccessRule lists the user, or a group of theirs"}, {asking, "eve", ""},
		{may, "edgar", "AccessRule g0 lists the user, or a group of theirs"}, {may, "eve", ""}, {unknown, "edgar", ""},
	} {
		c.attrs.User = &user.DefaultInfo{Name: c.who}
		v := w.gate.Decide(w.at(snap), c.attrs)
		if (v.Answer == Allowed) != (c.reason != "") || c.reason != "" && v.Reason != c.reason {
			t.Errorf("%s of %s by %s: %v, %q", c.attrs.Verb, c.attrs.Resource, c.who, v.Answer, v.Reason)
		}
	}
}

// TM-11: a role whose rules have conditions is granted with them, and what it denies it does not grant.
func TestGrantsUnderConditions(t *testing.T) {
	tier := &Access{store: snapshot.NewStore(), tier: NewAccess(nil).ServedBy(servedHere).tier}
	w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
	snap := w.snapshot()
	deny := readRule("configmaps", "", "")
	deny.Deny = true
	for name, c := range map[string]struct {
		rules []policyv1alpha1.PolicyRule
		open  bool
		want  authorizer.Decision
	}{
		"without a condition":            {[]policyv1alpha1.PolicyRule{readRule("configmaps", "", "")}, false, authorizer.DecisionAllow},
		"under one":                      {[]policyv1alpha1.PolicyRule{readRule("configmaps", "", `resource.data.k == "v"`)}, true, authorizer.DecisionNoOpinion},
		"both":                           {[]policyv1alpha1.PolicyRule{readRule("configmaps", "", `resource.data.k == "v"`), readRule("configmaps", "", "")}, false, authorizer.DecisionAllow},
		"the role denies it":             {[]policyv1alpha1.PolicyRule{readRule("configmaps", "", ""), deny}, false, authorizer.DecisionNoOpinion},
		"the role says nothing about it": {[]policyv1alpha1.PolicyRule{readRule("secrets", "", "")}, false, authorizer.DecisionNoOpinion},
	} {
		roleRef := accessv1alpha1.AccessRoleRef{Name: "r"}
		rules, requests := w.rules[0].DeepCopy(), w.granted[0].DeepCopy()
		rules.Spec.RoleRef, requests.Status.Granted.RoleRef = roleRef, roleRef
		snap.Access = access.Build(access.Input{MasterNamespace: "master", Rules: []*accessv1alpha1.AccessRule{rules}, Requests: []*accessv1alpha1.AccessRequest{requests}, Namespaces: uids{}, CompileRule: w.in.CompileRule, Kinds: w.in.Kinds,
			Policy: policyIn("master", c.rules...)})
		d, set := tier.open(w.at(snap), inA("get"), lists{})
		if (set != nil) != c.open {
			t.Errorf("%s: open %v", name, set != nil)
		}
		if decision, _, _ := foldOpen(d, set); decision != c.want {
			t.Errorf("%s: %v", name, decision)
		}
		if decision, _, _ := tier.Authorize(w.at(snap), inA("get")); decision != c.want {
			t.Errorf("%s, folded: %v", name, decision)
		}
		aware := tier.ConditionsAwareAuthorize(w.at(snap), inA("get"))
		if aware.IsUnconditional() == c.open {
			t.Errorf("%s: %v", name, aware)
		}
		if grants := tier.Granted(w.at(snap), inA("get")); (len(grants) == 1) != (c.open || c.want == authorizer.DecisionAllow) && name != "the role denies it" {
			t.Errorf("%s: granted by %d", name, len(grants))
		}
		if !c.open {
			continue
		}
		for k, want := range map[string]authorizer.Decision{"v": authorizer.DecisionAllow, "w": authorizer.DecisionNoOpinion} {
			o := unionObjects(rand.New(rand.NewPCG(1, 1)), "configmaps")[0]
			o.Object["data"] = map[string]any{"k": k}
			if got, _, _ := tier.EvaluateConditions(w.at(snap), aware, readState(o, "configmaps")); got != want {
				t.Errorf("%s, %s: %v", name, k, got)
			}
		}
	}
}

// TM-11: a grant for one write is not for writes that another server serves: nothing would use it up.
func TestGrantsForOneWriteHere(t *testing.T) {
	elsewhere := LocalFunc(func(group, _ string) bool { return group != "" })
	w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps, writeMaps)
	for _, once := range []bool{false, true} {
		w.granted[0].Spec.Once = once
		snap := w.snapshot()
		for verb, write := range map[string]bool{"get": false, "update": true} {
			for here, local := range map[bool]Local{true: servedHere, false: elsewhere} {
				tier, want := NewAccess(nil).ServedBy(local), here || !once || !write
				decision, _, _ := tier.Authorize(w.at(snap), inA(verb))
				if grants := tier.Granted(w.at(snap), inA(verb)); (decision == authorizer.DecisionAllow) != want || (len(grants) == 1) != want {
					t.Errorf("%s, once %v, served here %v: %v by %d grants", verb, once, here, decision, len(grants))
				}
			}
		}
	}
}

// TM-11: a question on the side does not use up a grant for one write, which is not an answer to it.
func TestQuestionsOnTheSide(t *testing.T) {
	for name, c := range map[string]struct {
		once, twice, rbac bool
		verb              string
		want              authorizer.Decision
	}{
		"a grant":                   {verb: "update", want: authorizer.DecisionAllow},
		"for one write":             {once: true, verb: "update", want: authorizer.DecisionNoOpinion},
		"for one write, and a read": {once: true, verb: "get", want: authorizer.DecisionAllow},
		"beside another grant":      {once: true, twice: true, verb: "update", want: authorizer.DecisionAllow},
		"beside another right":      {once: true, rbac: true, verb: "update", want: authorizer.DecisionAllow},
	} {
		w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps, writeMaps)
		w.granted[0].Spec.Once = c.once
		if c.twice {
			w.grant("a", writeMaps)
		}
		if c.rbac {
			w.rbac("a", writeMaps)
		}
		if got, _, _ := w.gate.InHandlers().Authorize(w.at(w.snapshot()), inA(c.verb)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TM-11: a request that is decided again says that a grant allows it by then.
func TestGrantsOfALaterDecision(t *testing.T) {
	for granted, by := range map[bool]string{true: "access", false: "rbac"} {
		w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
		if !granted {
			w.rbac("a", writeMaps)
		} else {
			w.grant("a", writeMaps)
		}
		snap := w.snapshot()
		holder := requestctx.From(requestctx.At(t.Context(), snap, unionNoon.Add(-time.Minute)))
		holder.Put(requestctx.Request, inA("update"), requestctx.Allowed())
		_, later := Later{Gate: w.gate, Clock: stopped(unionNoon.Add(time.Minute))}.Again(t.Context(), holder)
		if later == nil || later.By(requestctx.Request) != by || later.By(requestctx.Create) != by {
			t.Errorf("granted %v: %+v", granted, later)
		}
	}
}

// TM-11: outside of requests, grants are those of now; who has some gets a list of rules that is incomplete.
func TestGrantsOutsideOfRequests(t *testing.T) {
	w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
	snap := w.snapshot()
	tier := NewAccess(snapshot.NewStore())
	for who, want := range map[string]bool{"edgar": true, "eve": false} {
		rules, paths, incomplete, err := tier.RulesFor(w.at(snap), &user.DefaultInfo{Name: who}, "a")
		if incomplete != want || len(rules)+len(paths) > 0 || err != nil {
			t.Errorf("%s: incomplete %v, %v", who, incomplete, err)
		}
	}
	for name, ctx := range map[string]context.Context{"no request": t.Context(), "no policy": requestctx.With(t.Context(), nil)} {
		if decision, _, _ := tier.Authorize(ctx, inA("get")); decision != authorizer.DecisionNoOpinion {
			t.Errorf("%s: %v", name, decision)
		}
	}
}

// TM-12: the audit event of a request says what made it possible, and to which sinks it goes.
func TestGrantsAreAudited(t *testing.T) {
	compile := compilerOf(t)
	granted := newUnionWorld(t, compile).grant("a", readMaps)
	two := newUnionWorld(t, compile).grant("a", readMaps).grant("b", readMaps).rbac("c", readMaps)
	list := listOf("configmaps")
	list.Path = "/x"
	for name, c := range map[string]struct {
		world        *unionWorld
		attrs        authorizer.AttributesRecord
		names, sinks string
	}{
		"a read":           {granted, inA("get"), "a/g0", "sink-g0"},
		"a write":          {newUnionWorld(t, compile).grant("a", writeMaps), inA("update"), "a/g0", "sink-g0"},
		"not by a grant":   {newUnionWorld(t, compile).grant("b", readMaps).rbac("a", readMaps), inA("get"), "", ""},
		"not allowed":      {granted, inA("delete"), "", ""},
		"a union":          {two, list, "a/g0,b/g1", "sink-g0,sink-g1"},
		"a union of one":   {newUnionWorld(t, compile).grant("a", readMaps).rbac("c", readMaps), list, "a/g0", "sink-g0"},
		"a union by roles": {newUnionWorld(t, compile).grant("a", writeMaps).rbac("c", readMaps), list, "", ""},
	} {
		attrs := c.attrs
		attrs.Path = "/x"
		ctx := audited(t, c.world.at(c.world.snapshot()), attrs)
		_, _, _ = c.world.gate.AtFilter().Authorize(ctx, attrs)
		if got := noted(ctx, accessv1alpha1.AnnotationRequest); got != c.names {
			t.Errorf("%s: by %q, want %q", name, got, c.names)
		}
		if got := noted(ctx, AnnotationSinks); got != c.sinks {
			t.Errorf("%s: sinks %q, want %q", name, got, c.sinks)
		}
		quiet := c.world.at(c.world.snapshot())
		_, _, _ = c.world.gate.AtFilter().Authorize(quiet, attrs) // nobody audits it
	}
}

var writeMaps = rbacv1.PolicyRule{Verbs: []string{"update", "create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}

// policyIn is a policy with a role of these rules.
func policyIn(namespace string, rules ...policyv1alpha1.PolicyRule) *policyv1alpha1.Policy {
	return &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}}
}

// TM-12: of several uses within one request each grant is said once, in annotations that are numbered; there is an end.
func TestGrantsAreSaidOnce(t *testing.T) {
	w := newUnionWorld(t, compilerOf(t))
	for range MostGrantAnnotations + 3 {
		w.grant("a", readMaps)
	}
	snap := w.snapshot()
	snap.Access.Stands(inA("get"), unionNoon)
	var grants []*access.Grant
	for i := range MostGrantAnnotations + 3 {
		one := newUnionWorld(t, compilerOf(t))
		one.rules, one.granted, one.in = w.rules[i:i+1], w.granted[i:i+1], w.in
		grants = append(grants, one.gate.Chain.Granted(one.at(one.snapshot()), inA("get"))...)
	}
	if len(grants) != MostGrantAnnotations+3 {
		t.Fatalf("%d grants", len(grants))
	}
	ctx := loud(t, t.Context())
	AnnotateGrants(ctx, nil)
	AnnotateGrants(ctx, grants[:2])
	AnnotateGrants(ctx, grants[:2])
	AnnotateGrants(ctx, grants[1:3])
	all := audit.AuditContextFrom(ctx).GetEventAnnotations()
	if all[accessv1alpha1.AnnotationRequest] != "a/g0,a/g1" || all[accessv1alpha1.AnnotationRequest+"-2"] != "a/g2" || all[AnnotationSinks] != "sink-g0,sink-g1" || all[AnnotationSinks+"-2"] != "sink-g2" || len(all) != 4 {
		t.Errorf("%v", all)
	}
	if got := Numbered(all, AnnotationSinks); !slices.Equal(got, []string{"sink-g0", "sink-g1", "sink-g2"}) {
		t.Errorf("read back: %v", got)
	}
	if got := Numbered(map[string]string{AnnotationSinks: "forged"}, AnnotationSinks); got != nil {
		t.Errorf("sinks without a request: %v", got)
	}
	for _, g := range grants {
		AnnotateGrants(ctx, []*access.Grant{g})
	}
	all = audit.AuditContextFrom(ctx).GetEventAnnotations()
	last := fmt.Sprintf("%s-%d", accessv1alpha1.AnnotationRequest, MostGrantAnnotations)
	if all[last] == "" || all[fmt.Sprintf("%s-%d", accessv1alpha1.AnnotationRequest, MostGrantAnnotations+1)] != "" {
		t.Errorf("%d annotations, the last is %q", len(all), all[last])
	}
	if got := Numbered(all, accessv1alpha1.AnnotationRequest); len(got) != MostGrantAnnotations+1 {
		t.Errorf("%d are read back", len(got))
	}
	unaudited := audit.WithAuditContext(t.Context())
	AnnotateGrants(unaudited, grants)
	if all := audit.AuditContextFrom(unaudited).GetEventAnnotations(); len(all) > 0 {
		t.Errorf("nobody audits it: %v", all)
	}
}

// TM-11: a chain without the link of grants grants nothing, and no policy and no user neither.
func TestGrantedToNobody(t *testing.T) {
	w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
	snap := w.snapshot()
	ctx := w.at(snap)
	if got := w.gate.granted(ctx, snap, inA("get")); !slices.Equal(got, []string{"a"}) {
		t.Errorf("granted in %v", got)
	}
	anonymous := inA("get")
	anonymous.User = nil
	narrowed := inA("get")
	narrowed.User = &tokenUser{narrowed.User, &narrowedtoken.Token{}}
	for name, got := range map[string][]string{"no policy": w.gate.granted(ctx, nil, inA("get")), "nobody": w.gate.granted(ctx, snap, anonymous), "a token": w.gate.granted(ctx, snap, narrowed),
		"no link": w.gate.Over(readsGate(t).Chain).granted(ctx, snap, inA("get"))} {
		if len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := readsGate(t).Chain.Granted(ctx, inA("get")); got != nil {
		t.Errorf("a chain without the link: %v", got)
	}
}
