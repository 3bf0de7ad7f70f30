package access

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	access "proviso.dev/proviso/api/access/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

type prod struct{}

func (prod) Namespace(name string) (metav1.Object, bool) {
	return &metav1.ObjectMeta{Name: name, UID: "uid-of-prod", Labels: map[string]string{"stage": name}}, name == "prod"
}

func testRule() *access.AccessRule {
	return &access.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "rule-1", Generation: 1}, Spec: access.AccessRuleSpec{
		Subjects: access.Subjects{GroupNames: []string{"oncall"}}, RoleRef: access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all"},
		Namespaces: []string{"prod"}, MaxDurationSeconds: 7200, Approvals: &access.ApprovalRule{Count: 1, Subjects: access.Subjects{GroupNames: []string{"leads"}}},
	}}
}

func testRequest() *access.AccessRequest {
	from, until := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
	r := &access.AccessRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "prod", UID: "q-1", Annotations: map[string]string{policy.AnnotationNamespaceUID: "uid-of-prod"}},
		Spec:       access.AccessRequestSpec{RuleRef: access.AccessRuleRef{Name: "r", UID: "rule-1"}, DurationSeconds: 3600},
		Status: access.AccessRequestStatus{From: &from, Until: &until, Granted: &access.AccessGrant{RoleRef: testRule().Spec.RoleRef},
			Conditions: []metav1.Condition{{Type: access.ConditionApproved, Status: metav1.ConditionTrue, Reason: access.ReasonApproved}}},
	}
	r.Spec.Requester.Username = "alice"
	return r
}

// testSinks are the active audit sinks.
var testSinks = map[string]time.Time{"lasting": {}, "ending": noon.Add(time.Minute)}

func breaking(sinks ...string) func(*access.AccessRule) {
	return func(r *access.AccessRule) {
		r.Spec.Approvals, r.Spec.BreakGlass, r.Spec.AuditSinks = nil, true, sinks
	}
}

func build(rule *access.AccessRule, requests ...*access.AccessRequest) *Index {
	return buildServed(rule, nil, requests...)
}

// buildServed is for a server that also serves other resources.
func buildServed(rule *access.AccessRule, more []matching.Served, requests ...*access.AccessRequest) *Index {
	served := append([]matching.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "pods", Kind: "Pod", Builtin: true}}, more...)
	return Build(Input{MasterNamespace: "master", Kinds: matching.NewKinds(served), Sinks: testSinks, Rules: []*access.AccessRule{rule}, Requests: requests, Namespaces: prod{},
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}}})
}

func asking(verb, namespace, resource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice", Groups: []string{"oncall"}}, Verb: verb, Namespace: namespace, APIVersion: "v1", Resource: resource, ResourceRequest: true}
}

// allowed reports whether grants allow a request.
func allowed(ix *Index, attrs authorizer.Attributes, at time.Time) bool {
	var q ruleset.Query
	standing := ix.Stands(attrs, at)
	if len(standing) == 0 {
		return false
	}
	q.ResetFor(ix.Roles(), attrs, standing...)
	m := q.PolicyMaster()
	return m.Allow.Found() && !m.Deny.Found()
}

// TM-11: what a grant allows, and every way in which it does not count.
func TestGrants(t *testing.T) {
	get := asking("get", "prod", "configmaps")
	if !allowed(build(testRule(), testRequest()), get, noon) {
		t.Fatal("a grant does not count")
	}
	for name, tc := range map[string]struct {
		rule    func(*access.AccessRule)
		request func(*access.AccessRequest)
		asked   func(*authorizer.AttributesRecord)
		at      time.Time
		counts  bool
	}{
		"just before its end":  {at: noon.Add(time.Hour - time.Nanosecond), counts: true},
		"at its end":           {at: noon.Add(time.Hour)},
		"before its beginning": {at: noon.Add(-time.Nanosecond)},
		"at no known time":     {at: time.Time{}},
		"elsewhere":            {asked: func(a *authorizer.AttributesRecord) { a.Namespace = "dev" }},
		"everywhere":           {asked: func(a *authorizer.AttributesRecord) { a.Namespace = "" }},
		"by a path":            {asked: func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path, a.Namespace = false, "/metrics", "" }},
		"by somebody else": {asked: func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "bob", Groups: []string{"oncall"}}
		}},
		"without the group": {asked: func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "alice"} }},
		"that hands out":    {asked: func(a *authorizer.AttributesRecord) { a.Verb = "bind" }},
		"that impersonates": {asked: func(a *authorizer.AttributesRecord) { a.Verb = "impersonate:user-info" }},
		"not approved":      {request: func(r *access.AccessRequest) { r.Status.Conditions = nil }},
		"ended": {request: func(r *access.AccessRequest) {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: access.ConditionEnded, Status: metav1.ConditionTrue})
		}},
		"of another rule":                {request: func(r *access.AccessRequest) { r.Spec.RuleRef.UID = "rule-0" }},
		"of another role":                {rule: func(r *access.AccessRule) { r.Spec.RoleRef.Name = "some" }},
		"of a narrower rule":             {rule: func(r *access.AccessRule) { r.Spec.Namespaces = []string{"dev"} }},
		"of a shorter rule":              {rule: func(r *access.AccessRule) { r.Spec.MaxDurationSeconds = 60 }, at: noon.Add(time.Minute)},
		"by break-glass":                 {rule: breaking("lasting"), counts: true},
		"by break-glass of no sink":      {rule: breaking("lasting", "nosuch")},
		"by break-glass of one sink":     {rule: breaking("lasting", "ending"), counts: true, at: noon.Add(time.Minute - time.Nanosecond)},
		"by break-glass, a sink ends":    {rule: breaking("lasting", "ending"), at: noon.Add(time.Minute)},
		"by approval, with another sink": {rule: func(r *access.AccessRule) { r.Spec.AuditSinks = []string{"nosuch"} }, counts: true},
		"of a rule by label": {rule: func(r *access.AccessRule) {
			r.Spec.Namespaces, r.Spec.NamespaceSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
		}, counts: true},
		"of a rule by another": {rule: func(r *access.AccessRule) {
			r.Spec.Namespaces, r.Spec.NamespaceSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "dev"}}
		}},
		"of a namespace before": {request: func(r *access.AccessRequest) { r.Annotations[policy.AnnotationNamespaceUID] = "uid-of-another" }},
		"of a namespace gone":   {request: func(r *access.AccessRequest) { r.Namespace = "gone" }, asked: func(a *authorizer.AttributesRecord) { a.Namespace = "gone" }},
		"narrowed to it": {request: func(r *access.AccessRequest) {
			r.Spec.Verbs, r.Spec.ResourceKinds = []string{"get"}, []string{"configmaps"}
		}, counts: true},
		"narrowed to others":    {request: func(r *access.AccessRequest) { r.Spec.ResourceKinds = []string{"pods"} }},
		"narrowed to a name":    {request: func(r *access.AccessRequest) { r.Spec.ResourceNames = []string{"one"} }},
		"once, of a collection": {request: func(r *access.AccessRequest) { r.Spec.Once = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb = "deletecollection" }},
		"once, of one":          {request: func(r *access.AccessRequest) { r.Spec.Once = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, counts: true},
		"once, of a connection": {request: func(r *access.AccessRequest) { r.Spec.Once = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb, a.Resource, a.Subresource = "create", "pods", "exec" }},
		"of fields":             {asked: func(a *authorizer.AttributesRecord) { a.Verb = "granular:spec" }, counts: true},
		"once, of fields":       {request: func(r *access.AccessRequest) { r.Spec.Once = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb = "granular:spec" }},
		"for an account": {request: func(r *access.AccessRequest) {
			r.Spec.Requester.Username, r.Spec.Requester.UID = "system:serviceaccount:a:b", "1"
		}, asked: asAccount("1"), counts: true},
		"for another account": {request: func(r *access.AccessRequest) {
			r.Spec.Requester.Username, r.Spec.Requester.UID = "system:serviceaccount:a:b", "1"
		}, asked: asAccount("2")},
		"special, and rule says": {rule: func(r *access.AccessRule) { r.Spec.SpecialVerbs = true }, request: func(r *access.AccessRequest) { r.Status.Granted.SpecialVerbs = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb = "bind" }, counts: true},
		"special, widened later": {rule: func(r *access.AccessRule) { r.Spec.SpecialVerbs = true }, asked: func(a *authorizer.AttributesRecord) { a.Verb = "bind" }},
	} {
		rule, request, asked, at := testRule(), testRequest(), get, tc.at
		if tc.rule != nil {
			tc.rule(rule)
		}
		if tc.request != nil {
			tc.request(request)
		}
		if tc.asked != nil {
			tc.asked(&asked)
		}
		if at.IsZero() && name != "at no known time" {
			at = noon
		}
		if got := allowed(build(rule, request), asked, at); got != tc.counts {
			t.Errorf("a grant %s: %v", name, got)
		}
	}
}

func asAccount(uid string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		a.User = &user.DefaultInfo{Name: "system:serviceaccount:a:b", UID: uid, Groups: []string{"oncall"}}
	}
}

// TM-11: the namespaces for which something is granted.
func TestPlaces(t *testing.T) {
	ix := build(testRule(), testRequest())
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"oncall"}}
	if got := ix.Places(alice, noon); len(got) != 1 || got[0] != "prod" {
		t.Errorf("alice has something in %v", got)
	}
	for name, got := range map[string][]string{
		"after the end":     ix.Places(alice, noon.Add(time.Hour)),
		"at no known time":  ix.Places(alice, time.Time{}),
		"without the group": ix.Places(&user.DefaultInfo{Name: "alice"}, noon),
		"by another":        ix.Places(&user.DefaultInfo{Name: "bob", Groups: []string{"oncall"}}, noon),
		"without an index":  (*Index)(nil).Places(alice, noon),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TM-12: of people who cannot be told apart none has approved.
func TestApprovedByPeople(t *testing.T) {
	const key = "example.com/person"
	for name, tc := range map[string]struct {
		apart     bool
		requester []string
		by        map[string][]string
		want      int
	}{
		"two names":                       {by: map[string][]string{"bob": nil, "carl": nil}, want: 2},
		"two names and the requester's":   {by: map[string][]string{"bob": nil, "alice": nil}, want: 1},
		"two people":                      {apart: true, requester: []string{"1"}, by: map[string][]string{"bob": {"2"}, "carl": {"3"}}, want: 2},
		"one person of two names":         {apart: true, requester: []string{"1"}, by: map[string][]string{"bob": {"2"}, "carl": {"3", "2"}}, want: 1},
		"the requester's other name":      {apart: true, requester: []string{"1"}, by: map[string][]string{"bob": {"1"}}},
		"one who could be anybody":        {apart: true, requester: []string{"1"}, by: map[string][]string{"bob": nil, "carl": {"3"}}, want: 1},
		"a requester who could be anyone": {apart: true, by: map[string][]string{"bob": {"2"}, "carl": {"3"}}},
	} {
		rule, r := testRule(), testRequest()
		if tc.apart {
			rule.Spec.Approvals.IdentityExtra = key
		}
		if tc.requester != nil {
			r.Spec.Requester.Extra = map[string][]string{key: tc.requester}
		}
		for who, identity := range tc.by {
			r.Status.Approvals = append(r.Status.Approvals, access.AccessApproval{By: who, Identity: identity, RuleGeneration: 1})
		}
		if got := Approved(rule, r); got != tc.want {
			t.Errorf("%s: %d approvals, want %d", name, got, tc.want)
		}
	}
}

// TM-11: a grant that is narrowed to a kind does not come to mean another kind of that name.
func TestGrantsOfAKind(t *testing.T) {
	widgets := matching.Served{Group: "example.com", Resource: "widgets", Kind: "Widget"}
	others := matching.Served{Group: "evil.example", Resource: "widgets", Kind: "Widget"}
	maps := matching.Served{Group: "evil.example", Resource: "configmaps", Kind: "ConfigMap"}
	for name, c := range map[string]struct {
		kinds           []string
		group, resource string
		want            bool
	}{
		"by its group":                  {[]string{"widgets.example.com"}, "example.com", "widgets", true},
		"by its kind and group":         {[]string{"Widget.example.com"}, "example.com", "widgets", true},
		"another group":                 {[]string{"widgets.example.com"}, "evil.example", "widgets", false},
		"by its name":                   {[]string{"widgets"}, "example.com", "widgets", false},
		"by its name, another":          {[]string{"widgets"}, "evil.example", "widgets", false},
		"by the name of one built in":   {[]string{"ConfigMap"}, "", "configmaps", true},
		"one like one built in":         {[]string{"configmaps"}, "evil.example", "configmaps", false},
		"beside one that is built in":   {[]string{"configmaps", "widgets"}, "evil.example", "widgets", false},
		"the one that is built in":      {[]string{"configmaps", "widgets"}, "", "configmaps", true},
		"no other, if none remains":     {[]string{"widgets"}, "", "configmaps", false},
		"everything":                    {[]string{"*"}, "evil.example", "widgets", true},
		"everything but one":            {[]string{"*", "-widgets"}, "example.com", "widgets", false},
		"everything but one, the other": {[]string{"*", "-widgets"}, "", "pods", true},
	} {
		request := testRequest()
		request.Spec.ResourceKinds = c.kinds
		attrs := asking("get", "prod", c.resource)
		attrs.APIGroup = c.group
		if got := allowed(buildServed(testRule(), []matching.Served{widgets, others, maps}, request), attrs, noon); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TM-13: while there is a grant by break-glass, every request needs an audit event: that of a user who impersonates the
// holder is created before it is known for whom the request is.
func TestWatched(t *testing.T) {
	glass := testRule()
	breaking("lasting")(glass)
	deaf := testRule()
	breaking("nosuch")(deaf)
	for name, tc := range map[string]struct {
		ix   *Index
		want bool
	}{
		"a grant by break-glass":                {build(glass, testRequest()), true},
		"a grant by break-glass without a sink": {build(deaf, testRequest()), false},
		"a rule for break-glass":                {build(glass), false},
		"a grant by approval":                   {build(testRule(), testRequest()), false},
		"nothing":                               {nil, false},
	} {
		for _, who := range []string{"alice", "support", user.Anonymous} {
			attrs := asking("get", "prod", "configmaps")
			attrs.User = &user.DefaultInfo{Name: who}
			if got := tc.ix.Watched(attrs); got != tc.want {
				t.Errorf("%s, %s: watched %v, want %v", name, who, got, tc.want)
			}
		}
	}
}
