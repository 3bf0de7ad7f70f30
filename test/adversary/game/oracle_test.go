package game

import (
	"reflect"
	"slices"
	"testing"
)

var catalog = Catalog{
	{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}},
	{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}},
	{Version: "v1", Plural: "services", Kind: "Service", Namespaced: true, Subs: []string{"proxy"}, Verbs: []string{"get", "create"}},
	{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Subs: []string{"exec", "eviction"}, Verbs: []string{"get", "create"}},
	{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true, Subs: []string{"token"}, Verbs: []string{"get", "create"}},
	{Version: "v1", Plural: "namespaces", Kind: "Namespace", Subs: []string{"finalize"}, Verbs: []string{"get", "create", "delete"}},
	{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Verbs: []string{"get", "create"}},
	{Group: "policy.proviso.dev", Version: "v1alpha1", Plural: "policies", Kind: "Policy", Namespaced: true, Verbs: []string{"get"}},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role", Namespaced: true, Verbs: []string{"get", "create"}},
	{Group: "authorization.proviso.dev", Version: "v1alpha1", Plural: "roles", Kind: "Role", Namespaced: true, Verbs: []string{"get", "create"}},
}

func to(who string, how, ns string, rules ...Rule) Grant {
	return Grant{How: how, NS: ns, Rules: rules, To: []string{"user:" + who}}
}

func TestDecide(t *testing.T) {
	marked := map[string]any{"metadata": map[string]any{"labels": map[string]any{"marked": "yes"}}}
	plainObject := map[string]any{"metadata": map[string]any{}}
	all := Rule{Verbs: []string{"*"}, Kinds: []string{"*"}}
	tests := []struct {
		name   string
		grants []Grant
		gone   bool
		ask    Ask
		want   Answer
	}{
		{"nobody has said anything", nil, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, None},
		{"himself", nil, false, Ask{Verb: "create", Resource: "selfsubjectaccessreviews.authorization.k8s.io"}, Allow},
		{"RBAC", []Grant{to("u", ByLocalRole, "n", Rule{Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, Allow},
		{"RBAC elsewhere", []Grant{to("u", ByLocalRole, "m", Rule{Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, None},
		{"a master deny over RBAC", []Grant{to("u", ByClusterRole, "", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"*"}, Kinds: []string{"Secret"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, Deny},
		{"a namespace deny over a local grant", []Grant{to("u", ByLocalRole, "n", all), to("u", ByNamespace, "n", Rule{Deny: true, Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, Deny},
		{"a namespace deny under a cluster-wide grant", []Grant{to("u", ByClusterRole, "", all), to("u", ByNamespace, "n", Rule{Deny: true, Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, Allow},
		{"a deny in a namespace made again", []Grant{to("u", ByLocalRole, "n", all), to("u", ByNamespace, "n", Rule{Deny: true, Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, true, Ask{Verb: "get", Resource: "secrets", NS: "n"}, Allow},
		{"an allow in a namespace made again", []Grant{to("u", ByNamespace, "n", all)}, true, Ask{Verb: "get", Resource: "secrets", NS: "n"}, None},
		{"negation by kind", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"*"}, Kinds: []string{"*", "-Secret"}})}, false, Ask{Verb: "get", Resource: "secrets", NS: "n"}, None},
		{"a custom resource with the name of a denied kind", []Grant{to("u", ByClusterRole, "", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"*"}, Kinds: []string{"Secret"}})}, false, Ask{Verb: "get", Resource: "secret.example.com", NS: "n"}, Deny},
		{"a custom resource with the name of an allowed one", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"get"}, Kinds: []string{"secrets"}})}, false, Ask{Verb: "get", Resource: "secrets.example.com", NS: "n"}, None},
		{"a guarded group by a bare name", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"get"}, Kinds: []string{"policies"}})}, false, Ask{Verb: "get", Resource: "policies.policy.proviso.dev", NS: "n"}, None},
		{"a subresource is not its resource", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"create"}, Kinds: []string{"pods"}})}, false, Ask{Verb: "create", Resource: "pods/eviction", NS: "n"}, None},
		{"the wildcard and special verbs", []Grant{to("u", ByMaster, "", all)}, false, Ask{Verb: "escalate", Resource: "roles.authorization.proviso.dev", NS: "n"}, None},
		{"the wildcard and exclusive fields", []Grant{to("u", ByMaster, "", all)}, false, Ask{Verb: "granular:example.com/x", Resource: "pods", NS: "n"}, None},
		{"RBAC's wildcard and exclusive fields", []Grant{to("u", ByClusterRole, "", all)}, false, Ask{Verb: "granular:example.com/x", Resource: "pods", NS: "n"}, Allow},
		{"update includes patch", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"update"}, Kinds: []string{"pods"}})}, false, Ask{Verb: "patch", Resource: "pods", NS: "n"}, Allow},
		{"RBAC's does not", []Grant{to("u", ByClusterRole, "", Rule{Verbs: []string{"update"}, Kinds: []string{"pods"}})}, false, Ask{Verb: "patch", Resource: "pods", NS: "n"}, None},
		{"a name in a URL", []Grant{to("u", ByClusterRole, "", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"*"}, Kinds: []string{"services/proxy"}, Names: []string{"admin"}})}, false, Ask{Verb: "connect", Resource: "services/proxy", NS: "n", Name: "http:admin:80"}, Deny},
		{"another name", []Grant{to("u", ByClusterRole, "", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"*"}, Kinds: []string{"services/proxy"}, Names: []string{"admin"}})}, false, Ask{Verb: "connect", Resource: "services/proxy", NS: "n", Name: "http:other:80"}, Allow},
		{"a condition that holds", []Grant{to("u", ByLocalRole, "n", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"delete"}, Kinds: []string{"pods"}, If: "has:marked"})}, false, Ask{Verb: "delete", Resource: "pods", NS: "n", Old: marked}, Deny},
		{"one that does not", []Grant{to("u", ByLocalRole, "n", all), to("u", ByMaster, "", Rule{Deny: true, Verbs: []string{"delete"}, Kinds: []string{"pods"}, If: "has:marked"})}, false, Ask{Verb: "delete", Resource: "pods", NS: "n", Old: plainObject}, Allow},
		{"only some fields", []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"update"}, Kinds: []string{"pods"}, If: "only:.spec"})}, false, Ask{Verb: "update", Resource: "pods", NS: "n", Old: plainObject, New: marked}, None},
		{"edit and its namespace", []Grant{{How: ByNamespace, NS: "n", Role: "edit", To: []string{"user:u"}}}, false, Ask{Verb: "delete", Resource: "namespaces", Name: "n"}, None},
		{"edit and what is in it", []Grant{{How: ByNamespace, NS: "n", Role: "edit", To: []string{"user:u"}}}, false, Ask{Verb: "delete", Resource: "pods", NS: "n"}, Allow},
		{"a service account by its group", []Grant{{How: ByMaster, Rules: []Rule{{Deny: true, Verbs: []string{"*"}, Kinds: []string{"secrets"}}}, To: []string{"group:system:serviceaccounts:n"}}}, false, Ask{User: "system:serviceaccount:n:bot", Verb: "get", Resource: "secrets", NS: "n"}, Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.ask.User == "" {
				tt.ask.User = "u"
			}
			o := &Oracle{Case: &Case{Grants: tt.grants}, Catalog: catalog, Gone: map[string]bool{"n": tt.gone}}
			if got := o.Decide(tt.ask); got != tt.want {
				t.Errorf("it is %v, want: %v", got, tt.want)
			}
		})
	}
}

func TestMay(t *testing.T) {
	secrets := Rule{Verbs: []string{"get"}, Kinds: []string{"secrets"}}
	deny := Rule{Deny: true, Verbs: []string{"get"}, Kinds: []string{"secrets"}}
	ask := Ask{Verb: "get", Resource: "secrets", NS: "n", Name: "s"}
	bot := ServiceAccount("n", "bot")
	tests := []struct {
		name   string
		grants []Grant
		who    Who
		by     []Who
		want   bool
	}{
		{"somebody gave what he had", []Grant{to("g", ByLocalRole, "n", secrets)}, Who{User: "u"}, []Who{{User: "g"}}, true},
		{"somebody gave what he had not", []Grant{to("g", ByLocalRole, "m", secrets)}, Who{User: "u"}, []Who{{User: "g"}}, false},
		{"somebody gave what he is denied", []Grant{to("g", ByLocalRole, "n", secrets), to("g", ByMaster, "", deny)}, bot, []Who{{User: "g"}}, false},
		{"he could have taken it from a service account", []Grant{to("g", ByLocalRole, "n", Rule{Verbs: []string{"create"}, Kinds: []string{"serviceaccounts/token"}}),
			{How: ByLocalRole, NS: "n", Rules: []Rule{secrets}, To: []string{"sa:n/bot"}}}, Who{User: "u"}, []Who{{User: "g"}}, true},
		{"a deny that the granter may not lift", []Grant{to("g", ByLocalRole, "n", secrets), to("u", ByNamespace, "n", deny)}, Who{User: "u"}, []Who{{User: "g"}}, false},
		{"a deny that he may lift", []Grant{to("g", ByLocalRole, "n", secrets), to("u", ByNamespace, "n", deny), to("g", ByNamespace, "n", Rule{Verbs: []string{"deny"}, Kinds: []string{"roles.authorization.proviso.dev"}})}, Who{User: "u"}, []Who{{User: "g"}}, true},
		{"a local deny under a cluster-wide grant", []Grant{to("g", ByClusterRole, "", secrets), to("u", ByNamespace, "n", deny)}, Who{User: "u"}, []Who{{User: "g"}}, true},
		{"one who may escalate", []Grant{to("g", ByMaster, "", Rule{Verbs: []string{"escalate"}, Kinds: []string{"roles.authorization.proviso.dev"}})}, Who{User: "u"}, []Who{{User: "g"}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Party{Oracle: &Oracle{Case: &Case{Grants: tt.grants}, Catalog: catalog}, Granters: tt.by}
			if got, answer := p.May(tt.who, ask); got != tt.want {
				t.Errorf("may: %v (%v), want %v", got, answer, tt.want)
			}
		})
	}
}

// TestExclusiveIsNotGranular: to hold the verb granular is not to hold a permission.
func TestExclusiveIsNotGranular(t *testing.T) {
	o := &Oracle{Case: &Case{Grants: []Grant{to("u", ByMaster, "", Rule{Verbs: []string{"*", "granular"}, Kinds: []string{"*"}})}}, Catalog: catalog}
	if may, _ := (&Party{Oracle: o}).May(Who{User: "u"}, Ask{Verb: "granular:example.com/x", Resource: "pods", NS: "n"}); may {
		t.Error("the wildcard gives an exclusive field")
	}
}

func TestGranular(t *testing.T) {
	before := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "1"}}, "data": "x"}
	label := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "1", "own.example.com/x": "1"}}, "data": "x"}
	data := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "1"}}, "data": "y"}
	grants := []Grant{to("u", ByClusterRole, "", Rule{Verbs: []string{"granular", "granular:label(own.example.com)"}, Kinds: []string{"configmaps"}})}
	for _, tt := range []struct {
		name  string
		after map[string]any
		want  bool
	}{{"his label", label, true}, {"the data", data, false}, {"nothing", before, true}} {
		o := &Oracle{Case: &Case{Grants: grants}, Catalog: catalog}
		if got := o.Granular(Ask{User: "u", Verb: "update", Resource: "configmaps", NS: "n", Old: before, New: tt.after}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestDrawRepeats: a seed is a case.
func TestDrawRepeats(t *testing.T) {
	full := slices.Clone(catalog)
	for seed := range uint64(300) {
		a, b := Draw(seed, full), Draw(seed, full)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d gives two cases", seed)
		}
		if len(a.Steps) < 2 || len(a.Steps) > 12 {
			t.Errorf("seed %d has %d steps", seed, len(a.Steps))
		}
	}
}

func TestShrink(t *testing.T) {
	c := Draw(7, catalog, "grants")
	for range 10 {
		c.Steps = append(c.Steps, Step{Actor: "x", Verb: "get", Resource: "pods"})
	}
	c.Steps[3] = Step{Actor: "a0" + Run, Verb: "delete", Resource: "secrets", Query: "propagationPolicy=Foreground"}
	c.Steps[9] = Step{Actor: "a0" + Run, Verb: "create", Resource: "secrets"}
	short := Shrink(c, 1000, func(c *Case) bool {
		i := slices.IndexFunc(c.Steps, func(s Step) bool { return s.Verb == "delete" && s.Resource == "secrets" })
		j := slices.IndexFunc(c.Steps, func(s Step) bool { return s.Verb == "create" && s.Resource == "secrets" && s.Actor == "a0"+Run })
		return i >= 0 && j > i
	})
	if len(short.Steps) != 2 || len(short.Grants) != 0 || len(short.Prey) != 0 || short.Steps[0].Query != "" {
		t.Errorf("not short: %+v", short)
	}
}

// TestGrantedInItsNamespace: what was asked for and approved is about requests in its namespace, and one for a
// namespace is in it.
func TestGrantedInItsNamespace(t *testing.T) {
	rule := Access{Name: "r", NS: "n", Rules: []Rule{{Verbs: []string{"*"}, Kinds: []string{"*"}}}, Count: 1}
	o := &Oracle{Case: &Case{}, Catalog: catalog, Requests: Requests{"q": {By: Who{User: "u"}, Rule: rule, Approved: []string{"v"}}}}
	for _, tt := range []struct {
		ask  Ask
		want Answer
	}{
		{Ask{User: "u", Verb: "delete", Resource: "namespaces", Name: "n"}, Allow},
		{Ask{User: "u", Verb: "delete", Resource: "namespaces", Name: "m"}, None},
		{Ask{User: "u", Verb: "get", Resource: "secrets", NS: "n", Name: "s"}, Allow},
		{Ask{User: "u", Verb: "get", Resource: "secrets", NS: "m", Name: "s"}, None},
		{Ask{User: "w", Verb: "get", Resource: "secrets", NS: "n", Name: "s"}, None},
	} {
		if got := o.Decide(tt.ask); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.ask, got, tt.want)
		}
	}
}
