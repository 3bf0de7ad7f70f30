package authorize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// HF-7: nothing is hidden from system:masters, from controllers, and from nodes where the Node authorizer itself lets
// them; a narrowed token says itself what it reveals. Of nodes that can change.
func TestWhoSeesAll(t *testing.T) {
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}
	for name, c := range map[string]struct {
		who   user.Info
		node  byVerb
		kind  string
		token bool
		want  bool
	}{
		"a master":                   {&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, byVerb{}, TypeNode, false, true},
		"a master with a token":      {&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, byVerb{}, TypeNode, true, false},
		"a controller":               {&user.DefaultInfo{Name: "system:serviceaccount:kube-system:replicaset-controller"}, byVerb{}, TypeNode, false, true},
		"a user":                     {&user.DefaultInfo{Name: "edgar"}, byVerb{allowed: []string{"get"}}, TypeNode, false, false},
		"nobody":                     {nil, byVerb{allowed: []string{"get"}}, TypeNode, false, false},
		"a node":                     {node, byVerb{allowed: []string{"get"}}, TypeNode, false, true},
		"a node, not by its own":     {node, byVerb{allowed: []string{"get"}}, "RBAC", false, false},
		"a node that is not allowed": {node, byVerb{}, TypeNode, false, false},
		"a node by its name alone":   {&user.DefaultInfo{Name: "system:node:n1"}, byVerb{allowed: []string{"get"}}, TypeNode, false, false},
		"a node by its group alone":  {&user.DefaultInfo{Name: "edgar", Groups: []string{user.NodesGroup}}, byVerb{allowed: []string{"get"}}, TypeNode, false, false},
	} {
		chain, err := NewChain(Link{Name: "first", Authorizer: byVerb{}}, Link{Name: "node", Type: c.kind, Authorizer: c.node})
		if err != nil {
			t.Fatal(err)
		}
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
		if c.token {
			requestctx.From(ctx).Bears(&requestctx.Bearer{Token: &narrowedtoken.Token{}})
		}
		attrs := asks("get")
		attrs.User = c.who
		if got := NewGate(GateConfig{Chain: chain}).SeesAll(ctx, attrs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := SeesAlways(ctx, attrs); got != (c.want && name != "a node") {
			t.Errorf("%s: always %v", name, got)
		}
	}
}

// TM-2: the next change of an answer is the first edge after the instant at which it is another one, if that is known
// and not too far.
func TestNextChange(t *testing.T) {
	ten := time.Unix(1750000000, 0)
	snap := untilTen(t, ten)
	var asked []time.Time
	differs := func(at ...time.Time) func(context.Context) bool {
		return func(ctx context.Context) bool {
			now := requestctx.InstantOf(ctx)
			asked = append(asked, now)
			for _, one := range at {
				if now.Equal(one) {
					return false
				}
			}
			return true
		}
	}
	who := asks("get").User
	for name, c := range map[string]struct {
		snap *snapshot.Snapshot
		at   time.Time
		same func(context.Context) bool
		want time.Time
	}{
		"it ends":            {snap, ten.Add(-time.Minute), differs(ten), ten},
		"it makes no change": {snap, ten.Add(-time.Minute), differs(), time.Time{}},
		"it has ended":       {snap, ten, differs(ten), time.Time{}},
		"at no known time":   {snap, time.Time{}, differs(ten), time.Time{}},
		"nothing ends":       {untilTen(t, time.Time{}), ten.Add(-time.Minute), differs(ten), time.Time{}},
	} {
		asked = nil
		got := NextChange(requestctx.At(t.Context(), c.snap, c.at), c.snap, who, c.same)
		if (got == nil) != c.want.IsZero() || got != nil && !got.Time.Equal(c.want) {
			t.Errorf("%s: %v", name, got)
		}
		if len(asked) > 1 || len(asked) == 1 && !asked[0].Equal(ten) {
			t.Errorf("%s: asked about %v", name, asked)
		}
	}
	// Edges without end are not tried without end.
	many := ruleset.Input{MasterNamespace: "master", Kinds: unionServed().Kinds(), Policies: []*policyv1alpha1.Policy{policyIn("master", readRule("configmaps", "", ""))}}
	bindings := map[string]policyv1alpha1.PolicyRoleBinding{}
	for i := range maxEdges + 1 {
		bindings[fmt.Sprint("b", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: "r", UserNames: []string{"edgar"}, NotAfter: &metav1.Time{Time: ten.Add(time.Duration(i) * time.Minute)}}
	}
	many.PolicyBindings = []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "master", Namespace: "master"}, RoleBindings: bindings}}
	edges := &snapshot.Snapshot{Rules: ruleset.Build(many), Served: unionServed()}
	for i, want := range map[int]bool{maxEdges - 1: true, maxEdges: false} {
		last := ten.Add(time.Duration(i) * time.Minute)
		if got := NextChange(requestctx.At(t.Context(), edges, ten.Add(-time.Minute)), edges, who, differs(last)); (got != nil) != want {
			t.Errorf("edge %d: %v", i, got)
		}
	}
}

// PO-20: denied is more than not allowed, and what some object could make denied may be.
func TestDeniedIsMoreThanNotAllowed(t *testing.T) {
	denies := func(result int) authorizer.ConditionsAwareDecision {
		return authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{condition("c", results[result])}, nil, nil)
	}
	for name, c := range map[string]struct {
		d           authorizer.ConditionsAwareDecision
		denied, may bool
	}{
		"allowed": {authorizer.ConditionsAwareDecisionAllow("", nil), false, false}, "no opinion": {authorizer.ConditionsAwareDecisionNoOpinion("", nil), false, false},
		"denied": {authorizer.ConditionsAwareDecisionDeny("no", nil), true, true}, "a deny that holds": {denies(0), true, true}, "a deny that does not": {denies(1), false, true},
		"a deny that fails": {denies(2), true, true}, "an allow that does not hold": {oneAllow(1), false, false},
	} {
		chain, err := NewChain(Link{Name: "a", Authorizer: &scripted{decision: c.d}})
		if err != nil {
			t.Fatal(err)
		}
		gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere})
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
		if out, got := gate.Denied(ctx, asks("delete"), created("yes")); got != c.denied || (out.Decision == authorizer.DecisionDeny) != c.denied {
			t.Errorf("%s: denied %v, %+v", name, got, out)
		}
		if got := gate.MayBeDenied(ctx, asks("delete")); got != c.may {
			t.Errorf("%s: may be denied %v", name, got)
		}
	}
	// A condition that fails before there is an object is counted.
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, When: `request.extra["clearance"][0] == "top"`}})})
	gate := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Local: servedHere})
	before := failures(t)
	if _, denied := gate.Denied(requestctx.With(t.Context(), store.Current()), asks("delete"), created("yes")); !denied || failures(t) == before {
		t.Errorf("a condition that fails: denied %v, counted %v", denied, failures(t)-before)
	}
}

// agreement is what replicas say.
type agreement struct{ error }

func (a agreement) Agreed() error { return a.error }

// SV-8, SV-14: while a server must not decide, nobody gets anything but the health endpoints; afterwards it says
// nothing.
func TestServersThatMustNotDecide(t *testing.T) {
	path := func(verb, path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: asks("get").User, Verb: verb, Path: path}
	}
	pods := asks("get")
	pods.Path = "/healthz"
	for _, c := range []struct {
		attrs authorizer.AttributesRecord
		want  authorizer.Decision
	}{
		{path("get", "/livez"), authorizer.DecisionAllow}, {path("get", "/readyz"), authorizer.DecisionAllow}, {path("get", "/healthz"), authorizer.DecisionAllow},
		{path("post", "/healthz"), authorizer.DecisionDeny}, {path("get", "/metrics"), authorizer.DecisionDeny}, {path("get", "/healthz/etcd"), authorizer.DecisionDeny}, {pods, authorizer.DecisionDeny}, {asks("get"), authorizer.DecisionDeny},
	} {
		for name, link := range map[string]authorizer.Authorizer{"unready": Unready{Replicas: agreement{errors.New("replicas differ")}}, "unsynced": Unsynced{Store: snapshot.NewStore(), Age: Ageless{}}} {
			got, reason, err := link.Authorize(t.Context(), c.attrs)
			if got != c.want || err != nil || reason == "" {
				t.Errorf("%s, %s %s: %v, %q, %v", name, c.attrs.Verb, c.attrs.Path, got, reason, err)
			}
			d := link.ConditionsAwareAuthorize(t.Context(), c.attrs)
			if d.IsAllow() != (c.want == authorizer.DecisionAllow) || d.IsDeny() != (c.want == authorizer.DecisionDeny) {
				t.Errorf("%s, %s %s: %v", name, c.attrs.Verb, c.attrs.Path, d)
			}
			if got, _, err := link.EvaluateConditions(t.Context(), d, nil); got != authorizer.DecisionDeny || err == nil {
				t.Errorf("%s: conditions that it never has: %v, %v", name, got, err)
			}
		}
		for name, link := range map[string]authorizer.Authorizer{"agreed": Unready{Replicas: agreement{}}, "alone": Unready{Replicas: Alone{}}} {
			if got, _, _ := link.Authorize(t.Context(), c.attrs); got != authorizer.DecisionNoOpinion {
				t.Errorf("%s, %s %s: %v", name, c.attrs.Verb, c.attrs.Path, got)
			}
		}
	}
}

// Metrics of Policy count what upstream's would: an answer, whatever it is, once.
func TestCountedTier(t *testing.T) {
	rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"configmaps"}}, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}},
		{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes"`}}
	for verb, want := range map[string]string{"get": "allowed", "delete": "denied", "create": "conditional allowed", "update": ""} {
		tier, ctx := policyTier(t, rules...)
		var said []string
		link := Counted(tier, func(outcome string) { said = append(said, outcome) })
		d := link.ConditionsAwareAuthorize(ctx, asks(verb))
		if verb == "create" {
			if got, _, _ := link.EvaluateConditions(ctx, d, created("yes")); got != authorizer.DecisionAllow {
				t.Errorf("a condition that holds: %v", got)
			}
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s: counted %q, want %q", verb, got, want)
		}
		said = nil
		_, _, _ = link.Authorize(ctx, asks(verb))
		if got := strings.Join(said, " "); verb != "create" && got != want || verb == "create" && got != "" {
			t.Errorf("%s, folded: counted %q", verb, got)
		}
	}
	var said []string
	count(func(outcome string) { said = append(said, outcome) }, 99)
	if strings.Join(said, " ") != "unknown" {
		t.Errorf("a decision that does not exist: %q", said)
	}
}

// SV-6: a trace asks each link until one has decided whatever the object is, and leaves out the others.
func TestTraceEndsWhereItIsDecided(t *testing.T) {
	allow, deny, none := authorizer.ConditionsAwareDecisionAllow("yes", nil), authorizer.ConditionsAwareDecisionDeny("no", nil), authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	for name, c := range map[string]struct {
		links    []authorizer.ConditionsAwareDecision
		data     bool
		honoured bool
		want     string
	}{
		"an allow ends it":                      {[]authorizer.ConditionsAwareDecision{none, allow, deny}, false, true, "NoOpinion Allow -"},
		"a deny ends it":                        {[]authorizer.ConditionsAwareDecision{deny, allow}, false, true, "Deny -"},
		"a condition that is open does not":     {[]authorizer.ConditionsAwareDecision{oneAllow(0), deny, allow}, false, true, "open Deny -"},
		"a condition that holds does":           {[]authorizer.ConditionsAwareDecision{oneAllow(0), deny}, true, true, "Allow -"},
		"one that does not hold":                {[]authorizer.ConditionsAwareDecision{oneAllow(1), deny}, true, true, "NoOpinion Deny"},
		"one that is not honoured folds":        {[]authorizer.ConditionsAwareDecision{oneAllow(0), allow}, true, false, "NoOpinion Allow"},
		"one that is not honoured, and no data": {[]authorizer.ConditionsAwareDecision{oneAllow(0), allow}, false, false, "NoOpinion Allow"},
		"nothing decides":                       {[]authorizer.ConditionsAwareDecision{none, none}, true, true, "NoOpinion NoOpinion"},
	} {
		var links []Link
		for i, d := range c.links {
			links = append(links, Link{Name: fmt.Sprint(i), Authorizer: &scripted{decision: d}})
		}
		chain, err := NewChain(links...)
		if err != nil {
			t.Fatal(err)
		}
		var data authorizer.ConditionsData
		if c.data {
			data = created("yes")
		}
		var got []string
		for i, s := range chain.Trace(t.Context(), asks("create"), data, c.honoured) {
			switch {
			case s.Link.Name != fmt.Sprint(i):
				t.Errorf("%s: step %d is of link %s", name, i, s.Link.Name)
			case !s.Asked:
				got = append(got, "-")
			case s.Open:
				got = append(got, "open")
			default:
				got = append(got, Spell(s.Decision))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// SV-6: one rule is explained by what the request makes of it; what is supposed besides decides as a rule of the tier
// does, and counts nothing.
func TestExplainAndSuppose(t *testing.T) {
	const byUser, open = `request.user == "edgar"`, `resource.metadata.labels["good"] == "yes"`
	rule := func(deny bool, when, where string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, When: when, Where: where}
	}
	for name, c := range map[string]struct {
		rule      policyv1alpha1.PolicyRule
		known     expr.Truth
		condition bool
		supposed  Answer
	}{
		"an allow": {rule(false, "", ""), expr.True, false, Allowed}, "an allow that holds": {rule(false, byUser, ""), expr.True, true, Allowed}, "an allow that does not": {rule(false, `request.user == "eve"`, ""), expr.False, true, Unanswered},
		"an open allow": {rule(false, "", open), expr.Unresolved, true, Open}, "a deny": {rule(true, "", ""), expr.True, false, Denied}, "an open deny": {rule(true, "", open), expr.Unresolved, true, Unanswered}, "a deny that does not hold": {rule(true, `request.user == "eve"`, ""), expr.False, true, Unanswered},
		"a deny that fails": {rule(true, `request.extra["a"][0] == "b"`, ""), expr.Failed, true, Denied},
	} {
		ix := world(t, []policyv1alpha1.PolicyRule{c.rule})
		var q ruleset.Query
		q.Reset(ix, asks("create"))
		effect := ruleset.Allows
		if c.rule.Deny {
			effect = ruleset.Denies
		}
		hits := q.AppendAll(nil, ruleset.TierNamespace, effect)
		if len(hits) != 1 {
			t.Fatalf("%s: %d rules", name, len(hits))
		}
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: ix})
		if got := Explain(ctx, hits[0], asks("create")); got.Known != c.known || (got.Condition != nil) != c.condition {
			t.Errorf("%s: %+v", name, got)
		}
		// Supposed in a policy without it, the rule decides as it would in one that has it.
		empty := world(t, nil)
		tier := NewPolicyNamespace(snapshot.NewStore(), nil).ServedBy(servedHere)
		chain, err := NewChain(Link{Name: "policy-namespace", Authorizer: tier.Supposing(hits[0])})
		if err != nil {
			t.Fatal(err)
		}
		gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere})
		if v := gate.Decide(requestctx.With(t.Context(), &snapshot.Snapshot{Rules: empty}), asks("create")); v.Answer != c.supposed {
			t.Errorf("%s, supposed: %v (%s), want %v", name, v.Answer, v.Reason, c.supposed)
		}
		plain, err := NewChain(Link{Name: "policy-namespace", Authorizer: tier})
		if err != nil {
			t.Fatal(err)
		}
		if v := gate.Over(plain).Decide(requestctx.With(t.Context(), &snapshot.Snapshot{Rules: empty}), asks("create")); v.Answer != Unanswered {
			t.Errorf("%s: what is supposed stays: %v", name, v.Answer)
		}
	}
}

// PO-7: a deny of a namespace yields to a grant for the whole cluster, be it one that is only supposed, and to the Node
// authorizer; a trace says so.
func TestWhatYields(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}
	for name, c := range map[string]struct {
		node  authorizer.Authorizer
		rbac  bool
		want  authorizer.Decision
		yield bool
	}{
		"nothing": {nil, false, authorizer.DecisionDeny, false}, "RBAC": {nil, true, authorizer.DecisionNoOpinion, true}, "the Node authorizer": {byVerb{allowed: []string{"create"}}, false, authorizer.DecisionNoOpinion, true},
		"a Node authorizer that says nothing": {byVerb{}, false, authorizer.DecisionDeny, false},
	} {
		ix := world(t, []policyv1alpha1.PolicyRule{deny})
		if c.rbac {
			ix = world(t, []policyv1alpha1.PolicyRule{deny}, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
		}
		tier := NewPolicyNamespace(snapshot.NewStore(), c.node)
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: ix})
		if got, _, _ := tier.Authorize(ctx, asks("create")); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		for _, a := range tier.Applying(ctx, asks("create")) {
			if a.Yields != c.yield {
				t.Errorf("%s: the trace says that it yields: %v", name, a.Yields)
			}
		}
		if all := tier.Applying(requestctx.With(t.Context(), &snapshot.Snapshot{}), asks("create")); all != nil {
			t.Errorf("%s: rules of nothing: %v", name, all)
		}
	}
}
