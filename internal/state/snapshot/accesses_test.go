package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// TM-9: a server that starts with a rule waits for the roles, however often it looks at what it knows meanwhile.
func TestAccessWaitsForTheRoles(t *testing.T) {
	s := newShelf(AccessRules, AccessRequests, Namespaces)
	s.put(t, AccessRules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "on-call", UID: "1"}, Spec: accessv1alpha1.AccessRuleSpec{
		Subjects: accessv1alpha1.Subjects{UserNames: []string{"alice"}}, RoleRef: accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nosuch"}, Namespaces: []string{"prod"}}})
	a, err := NewAccesses(AccessesConfig{Source: s, MasterNamespace: "master"}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	next := &Snapshot{}
	for range 3 {
		if a.Apply(next); next.Access != nil {
			t.Fatal("there is something to ask for before the roles are known")
		}
	}
	next.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master"})
	a.Apply(next)
	ask := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "permission-request", APIGroup: accessv1alpha1.GroupName, Resource: "accessrules", Name: "on-call", ResourceRequest: true}
	if _, rule := next.Access.MayAsk(ask); rule == nil {
		t.Error("the rule is not known after the roles are, because its role does not exist")
	}
}

// TM-13: a grant by break-glass counts while its audit sinks are active, and no longer than they are. The status of a
// sink changes nothing.
func TestAccessWithoutItsSinks(t *testing.T) {
	s := newShelf(AccessRules, AccessRequests, Namespaces, AuditSinks, AuditClasses)
	noon := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	from, until := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
	role := accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nosuch"}
	s.put(t, Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "1"}})
	s.put(t, AccessRules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "glass", UID: "1"}, Spec: accessv1alpha1.AccessRuleSpec{
		Subjects: accessv1alpha1.Subjects{UserNames: []string{"alice"}}, RoleRef: role, Namespaces: []string{"prod"}, MaxDurationSeconds: 3600, BreakGlass: true, AuditSinks: []string{"security"}}})
	request := &accessv1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "q", Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "1"}},
		Spec: accessv1alpha1.AccessRequestSpec{RuleRef: accessv1alpha1.AccessRuleRef{Name: "glass", UID: "1"}},
		Status: accessv1alpha1.AccessRequestStatus{From: &from, Until: &until, Granted: &accessv1alpha1.AccessGrant{RoleRef: role},
			Conditions: []metav1.Condition{{Type: accessv1alpha1.ConditionApproved, Status: metav1.ConditionTrue}}}}
	request.Spec.Requester.Username = "alice"
	s.put(t, AccessRequests, request)
	changes := 0
	a, err := NewAccesses(AccessesConfig{Source: s, MasterNamespace: "master"}, func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	url := "https://audit.example.com"
	sink := func(generation int64, change func(*auditv1alpha1.AuditSinkSpec)) *auditv1alpha1.AuditSink {
		out := &auditv1alpha1.AuditSink{ObjectMeta: metav1.ObjectMeta{Name: "security", UID: "1", Generation: generation},
			Spec: auditv1alpha1.AuditSinkSpec{Policy: auditv1alpha1.Policy{Level: auditv1alpha1.LevelNone}, Webhook: &auditv1alpha1.Webhook{ClientConfig: auditv1alpha1.WebhookClientConfig{URL: &url}}}}
		if change != nil {
			change(&out.Spec)
		}
		return out
	}
	holds := func() string {
		next := &Snapshot{Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master"})}
		a.Apply(next)
		edges := next.Access.Edges(nil)
		if len(edges) != 2 {
			return "never"
		}
		return edges[1].Format(time.TimeOnly)
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"no sink", func() {}, "never"},
		{"a sink", func() { s.put(t, AuditSinks, sink(1, nil)) }, "13:00:00"},
		{"its status", func() {
			before, same := changes, sink(1, nil)
			same.ResourceVersion = "2"
			if s.put(t, AuditSinks, same); changes != before {
				t.Error("the status of a sink is a change")
			}
		}, "13:00:00"},
		{"an end", func() {
			s.put(t, AuditSinks, sink(2, func(spec *auditv1alpha1.AuditSinkSpec) { spec.NotAfter = &metav1.Time{Time: noon.Add(time.Minute)} }))
		}, "12:01:00"},
		{"an end before the beginning", func() {
			s.put(t, AuditSinks, sink(3, func(spec *auditv1alpha1.AuditSinkSpec) { spec.NotAfter = &metav1.Time{Time: noon} }))
		}, "never"},
		{"no webhook", func() {
			s.put(t, AuditSinks, sink(4, func(spec *auditv1alpha1.AuditSinkSpec) { spec.Webhook = nil }))
		}, "never"},
		{"a class that does not exist", func() {
			s.put(t, AuditSinks, sink(5, func(spec *auditv1alpha1.AuditSinkSpec) {
				spec.Policy.Rules = []auditv1alpha1.PolicyRule{{Level: auditv1alpha1.LevelNone, WithAuditClass: "all"}}
			}))
		}, "never"},
		{"the class", func() {
			s.put(t, AuditClasses, &auditv1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: auditv1alpha1.AuditClassSpec{Rules: []auditv1alpha1.Rule{{}}}})
		}, "13:00:00"},
		{"its deletion", func() { s.remove(t, AuditSinks, sink(5, nil), false) }, "never"},
	} {
		step.do()
		if got := holds(); got != step.want {
			t.Errorf("%s: the grant counts until %s, want %s", step.what, got, step.want)
		}
	}
}
