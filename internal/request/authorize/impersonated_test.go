package authorize

import (
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// CA-19: an impersonation is decided with the request that it is for, written down like any other decision, and told to
// observers with what it was decided by.
func TestImpersonationIsWrittenDown(t *testing.T) {
	info, attrs := asked("get")
	attrs.Verb = "impersonate"
	plain := request.WithUser(request.WithRequestInfo(requestctx.With(t.Context(), &snapshot.Snapshot{}), &info), &user.DefaultInfo{Name: "edgar"})
	for name, c := range map[string]struct {
		decision authorizer.ConditionsAwareDecision
		want     authorizer.Decision
		data     bool
		failed   bool
	}{
		"allowed":              {authorizer.ConditionsAwareDecisionAllow("", nil), authorizer.DecisionAllow, false, false},
		"denied":               {authorizer.ConditionsAwareDecisionDeny("", nil), authorizer.DecisionDeny, false, false},
		"no opinion":           {authorizer.ConditionsAwareDecisionNoOpinion("", nil), authorizer.DecisionNoOpinion, false, false},
		"a condition holds":    {oneAllow(0), authorizer.DecisionAllow, true, false},
		"a condition does not": {oneAllow(1), authorizer.DecisionNoOpinion, true, false},
		"a condition fails":    {oneAllow(2), authorizer.DecisionNoOpinion, true, true},
	} {
		chain, err := NewChain(Link{Name: "a", Authorizer: &scripted{decision: c.decision}})
		if err != nil {
			t.Fatal(err)
		}
		seen := &witness{}
		gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere, Observer: seen})
		ctx := loud(t, plain)
		failures := metered(t, "proviso_authorization_condition_failures_total")
		got, _, err := gate.AtFilter().Authorize(ctx, attrs)
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if len(*seen) != 1 || (*seen)[0].Allowed != (c.want == authorizer.DecisionAllow) || !(*seen)[0].Final || ((*seen)[0].Data != nil) != c.data {
			t.Errorf("%s: told %+v", name, *seen)
		}
		detail := noted(ctx, "authorization.proviso.dev/impersonation-detail")
		if strings.Contains(detail, "boom") != c.failed || (detail != "") != c.failed || (metered(t, "proviso_authorization_condition_failures_total") > failures) != c.failed {
			t.Errorf("%s: the detail is %q", name, detail)
		}
	}
	gate := gateOf(t, byVerb{conditional: []string{"impersonate"}})
	if got, _, err := gate.impersonate(requestctx.With(t.Context(), &snapshot.Snapshot{}), attrs); got != authorizer.DecisionDeny || err == nil {
		t.Errorf("for a request of which nothing is known: %v, %v", got, err)
	}
	// Everything that is asked about a state is that of the check.
	i := newImpersonation(attrs, expr.NewRequest(attrs))
	if i.IsDryRun() || i.GetName() != "w" || i.GetNamespace() != "hammer" || i.GetUserInfo() != attrs.User || i.GetResource().Resource != "widgets" || i.GetObject() != nil || i.Trusted() != nil || i.Aside() == nil {
		t.Errorf("%+v", i)
	}
}

func oneAllow(result int) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[result])})
}

// TM-11: impersonation that a grant allows is in the audit event.
func TestImpersonationByAGrant(t *testing.T) {
	for name, rule := range map[string]struct {
		verb, want string
	}{"granted": {"impersonate", "master/g0"}, "not granted": {"get", ""}} {
		w := newUnionWorld(t, compilerOf(t))
		w.grant("master", rbacv1.PolicyRule{Verbs: []string{rule.verb}, APIGroups: []string{""}, Resources: []string{"users"}})
		w.rules[0].Spec.SpecialVerbs, w.granted[0].Status.Granted.SpecialVerbs = true, true
		snap := w.snapshot()
		info, attrs := asked("get")
		attrs.Verb, attrs.APIGroup, attrs.APIVersion, attrs.Resource, attrs.Namespace, attrs.Name, attrs.Path = "impersonate", "", "v1", "users", "", "ann", ""
		ctx := loud(t, request.WithUser(request.WithRequestInfo(w.at(snap), &info), attrs.User))
		decision, reason, _ := w.gate.AtFilter().Authorize(ctx, attrs)
		if got := noted(ctx, accessv1alpha1.AnnotationRequest); got != rule.want || (decision == authorizer.DecisionAllow) != (rule.want != "") {
			t.Errorf("%s: %v (%s), by %q", name, decision, reason, got)
		}
	}
}

// TM-3: a request in the name of another user about which nobody was asked is asked about again, by what holds now.
func TestRememberedImpersonationIsAskedAgain(t *testing.T) {
	edgar := &user.DefaultInfo{Name: "edgar"}
	for name, c := range map[string]struct {
		impersonated, recalled bool
		last                   string
		answered               bool
		may                    []string
		want                   authorizer.Decision
		asked                  bool
	}{
		"as themselves":                {false, false, "", false, nil, authorizer.DecisionAllow, false},
		"just asked":                   {true, true, "impersonate", true, nil, authorizer.DecisionAllow, false},
		"remembered, and still may":    {true, true, "", false, []string{"impersonate"}, authorizer.DecisionAllow, true},
		"remembered, and may not":      {true, true, "", false, nil, authorizer.DecisionDeny, true},
		"refused the last time":        {true, true, "impersonate", false, nil, authorizer.DecisionDeny, true},
		"asked about the request":      {true, true, "impersonate-on:user-info:get", true, nil, authorizer.DecisionDeny, true},
		"about which nothing is known": {true, false, "", false, []string{"impersonate"}, authorizer.DecisionDeny, false},
	} {
		info, attrs := asked("get")
		answers := byVerb{allowed: append([]string{"get"}, c.may...)}
		gate := gateOf(t, answers)
		ctx := within(t, &info)
		state := requestctx.From(ctx)
		header := http.Header{}
		header.Set("Impersonate-User", "ann")
		if c.recalled {
			i := &requestctx.Impersonation{By: edgar, Header: header}
			if c.last != "" {
				i.Asked(c.last, c.answered)
			}
			state.Impersonates(i)
		}
		if c.impersonated {
			ctx = journal.Impersonated(ctx)
		}
		attrs.User = &user.DefaultInfo{Name: "ann"}
		decision, reason, _ := gate.AtFilter().Authorize(ctx, attrs)
		if decision != c.want || c.want == authorizer.DecisionDeny && reason != notAnyMore {
			t.Errorf("%s: %v, %q", name, decision, reason)
		}
	}
	if (gateOf(t, byVerb{})).impersonatesStill(requestctx.With(t.Context(), &snapshot.Snapshot{})) {
		t.Error("a request of which nothing is known may be made in another's name")
	}
	var nobody unheard
	n, err := nobody.Write([]byte("abc"))
	if nobody.WriteHeader(http.StatusForbidden); n != 3 || err != nil || nobody.Header() == nil {
		t.Errorf("nobody hears it: %d, %v", n, err)
	}
}

// TM-3: the gate notes what was asked about an impersonation, and the answer.
func TestImpersonationNotesTheQuestion(t *testing.T) {
	for verb, allowed := range map[string]bool{"impersonate": true, "impersonate-on:user-info:get": false} {
		info, attrs := asked("get")
		attrs.Verb = verb
		ctx := request.WithUser(within(t, &info), attrs.User)
		i := &requestctx.Impersonation{}
		requestctx.From(ctx).Impersonates(i)
		_, _, _ = gateOf(t, byVerb{allowed: []string{"impersonate"}}).AtFilter().Authorize(ctx, attrs)
		if last, was := i.Last(); last != verb || was != allowed {
			t.Errorf("%s: %q, %v", verb, last, was)
		}
	}
}
